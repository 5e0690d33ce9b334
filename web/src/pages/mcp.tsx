// Ready-made lines for MCP clients: over HTTP with a key, and over stdio on the daemon's machine.
import { useState } from 'preact/hooks';
import { Card, CopyLine, Field, Note, PageHead } from '../ui/basics';
import { Tabs } from '../ui/tabs';

const KEY = 'YOUR_API_KEY';

interface Client {
  id: string;
  label: string;
  http: (url: string) => Part[];
  stdio: (args: string[]) => Part[];
}

type Part = { where: string; text: string };

const json = (value: unknown) => JSON.stringify(value, null, 2);
const headers = { 'X-API-Key': KEY };

const CLIENTS: Client[] = [
  {
    id: 'claude-code',
    label: 'Claude Code',
    http: (url) => [{ where: 'In a terminal, then claude mcp list', text: `claude mcp add --transport http atoll ${url} --header "X-API-Key: ${KEY}"` }],
    stdio: (args) => [{ where: 'In a terminal, then claude mcp list', text: `claude mcp add atoll -- atoll ${args.join(' ')}` }],
  },
  {
    id: 'claude-desktop',
    label: 'Claude Desktop',
    http: (url) => [
      {
        where: 'In claude_desktop_config.json (Settings, Developer, Edit Config). It starts programs only: mcp-remote of npm connects it.',
        text: json({ mcpServers: { atoll: { command: 'npx', args: ['-y', 'mcp-remote', url, '--header', `X-API-Key:${KEY}`] } } }),
      },
    ],
    stdio: (args) => [{ where: 'In claude_desktop_config.json (Settings, Developer, Edit Config)', text: json({ mcpServers: { atoll: { command: 'atoll', args } } }) }],
  },
  {
    id: 'cursor',
    label: 'Cursor',
    http: (url) => [{ where: 'In ~/.cursor/mcp.json, or .cursor/mcp.json of a project', text: json({ mcpServers: { atoll: { url, headers } } }) }],
    stdio: (args) => [{ where: 'In ~/.cursor/mcp.json, or .cursor/mcp.json of a project', text: json({ mcpServers: { atoll: { command: 'atoll', args } } }) }],
  },
  {
    id: 'vscode',
    label: 'VS Code',
    http: (url) => [
      {
        where: 'In .vscode/mcp.json; VS Code asks for the key',
        text: json({
          inputs: [{ type: 'promptString', id: 'atoll-key', description: 'API key of atoll', password: true }],
          servers: { atoll: { type: 'http', url, headers: { 'X-API-Key': '${input:atoll-key}' } } },
        }),
      },
    ],
    stdio: (args) => [{ where: 'In .vscode/mcp.json', text: json({ servers: { atoll: { type: 'stdio', command: 'atoll', args } } }) }],
  },
  {
    id: 'other',
    label: 'Any other',
    http: (url) => [
      { where: 'Streamable HTTP', text: json({ mcpServers: { atoll: { type: 'http', url, headers } } }) },
      { where: 'To look at it by hand', text: `npx @modelcontextprotocol/inspector --cli ${url} --transport http --header "X-API-Key: ${KEY}" --method tools/list` },
    ],
    stdio: (args) => [{ where: 'A program that speaks MCP on its input and output', text: json({ mcpServers: { atoll: { command: 'atoll', args } } }) }],
  },
];

export default function Mcp() {
  const [at, setAt] = useState(CLIENTS[0]!.id);
  const [template, setTemplate] = useState('');
  const client = CLIENTS.find((one) => one.id === at)!;
  const name = template.trim();
  const url = `${location.origin}/mcp${name ? `?template=${encodeURIComponent(name)}` : ''}`;
  const args = name ? ['mcp', '--template', name] : ['mcp'];
  const draw = (part: Part) => (
    <div class="column tight" key={part.where}>
      <span class="muted">{part.where}</span>
      <CopyLine block text={part.text} />
    </div>
  );
  return (
    <div class="page">
      <PageHead title="MCP" sub="The tools for agents that speak the Model Context Protocol" />
      <Tabs label="Clients" tabs={CLIENTS.map(({ id, label }) => ({ id, label }))} at={at} onChange={setAt} />
      <div class="column" role="tabpanel" aria-labelledby={`tab-${at}`}>
        <div class="grid">
          <Card title="Over HTTP, from anywhere">
            <div class="column">
              {client.http(url).map(draw)}
              <Note>
                Put an API key in place of <code>{KEY}</code>: <a href="#/keys">create one</a> for each client, so that it can be revoked alone.
              </Note>
            </div>
          </Card>
          <Card title="Over stdio, on the machine of the daemon">
            <div class="column">
              {client.stdio(args).map(draw)}
              <p class="muted">
                <code>atoll mcp</code> takes the address and the key from <code>E2B_API_URL</code> and <code>E2B_API_KEY</code>, or of the daemon on its machine.
              </p>
            </div>
          </Card>
        </div>
        <Card title="Its sandbox">
          <div class="column">
            <p>
              A tool that needs a sandbox may be called without <code>sandbox_id</code>. It then uses a sandbox of the session, which the first call creates and the
              end of the session removes.
            </p>
            <Field label="Template of that sandbox">
              {(id) => <input id={id} value={template} placeholder="base" spellcheck={false} autocomplete="off" onInput={(event) => setTemplate(event.currentTarget.value)} />}
            </Field>
            <p class="muted">
              <code>/mcp?sandbox_id=ID</code> and <code>atoll mcp --sandbox ID</code> use one that is there. <a href="#/tools">The tools</a> can be tried here, too.
            </p>
          </div>
        </Card>
      </div>
    </div>
  );
}
