// The tools of the catalogue, and a form to try each.
import { signal } from '@preact/signals';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { navigate } from 'wouter-preact/use-hash-location';
import { get, isAbort, path, post, sentence } from '../../lib/api';
import { millis, plural } from '../../lib/format';
import { useLoad } from '../../lib/load';
import { keepList, sandboxes } from '../../lib/sandboxes';
import { canWrite } from '../../lib/session';
import { Badge, Button, Card, CopyLine, EmptyState, ErrorNote, Note, PageHead, SearchField, Spinner } from '../../ui/basics';
import { ResultView } from './result';
import { emptyOf, inputOf, SchemaField, type Schema, type Values } from './schema';

interface Tool {
  name: string;
  title: string;
  group: string;
  description: string;
  reads_only: boolean;
  destroys: boolean;
  input_schema: Schema;
}

const KNOWN_MAX = 200;
const filter = signal(''); // stays when another tool is chosen
const line = (name: string, input: unknown) =>
  `curl "$E2B_API_URL/tools/${name}" -H "X-API-Key: $E2B_API_KEY" -d '${JSON.stringify(input).replaceAll("'", "'\\''")}'`;

function tryInput(schema: Schema, values: Values): Record<string, unknown> | null {
  try {
    return inputOf(schema, values);
  } catch {
    return null;
  }
}

interface Ran {
  value?: unknown;
  error?: string;
  tookMs: number;
}

function Try({ tool }: { tool: Tool }) {
  const schema = tool.input_schema;
  const fields = Object.entries(schema.properties ?? {});
  const required = new Set(schema.required ?? []);
  const [values, setValues] = useState<Values>({});
  const [stop, setStop] = useState<AbortController | null>(null);
  const [ran, setRan] = useState<Ran | null>(null);
  useEffect(keepList, []);
  useEffect(() => () => stop?.abort(), [stop]);
  const known = useMemo(() => [...sandboxes.value.keys()].slice(0, KNOWN_MAX), [sandboxes.value]);
  const answer = useRef<HTMLDivElement>(null);
  useEffect(() => answer.current?.scrollIntoView({ block: 'nearest' }), [ran]);
  const input = tryInput(schema, values);
  const missing = [...required].filter((name) => input === null || input[name] === undefined);

  const run = async (event: Event) => {
    event.preventDefault();
    const controller = new AbortController();
    const from = performance.now();
    setStop(controller);
    setRan(null);
    try {
      const value = await post(path`/tools/${tool.name}`, inputOf(schema, values), { signal: controller.signal });
      setRan({ value, tookMs: performance.now() - from });
    } catch (error) {
      setRan({ error: isAbort(error) ? 'The call was stopped. The daemon has cleaned up after it.' : sentence(error), tookMs: performance.now() - from });
    } finally {
      setStop(null);
    }
  };
  const draw = ([name, field]: [string, Schema]) => (
    <SchemaField
      key={name}
      name={name}
      schema={field}
      required={required.has(name)}
      value={values[name] ?? emptyOf(field)}
      known={known}
      onChange={(next) => setValues((before) => ({ ...before, [name]: next }))}
    />
  );
  const first = fields.filter(([name]) => required.has(name) || name === 'sandbox_id');
  const more = fields.filter(([name]) => !first.some(([one]) => one === name));
  return (
    <div class="column">
      <Card
        title={tool.title}
        actions={
          <>
            {tool.reads_only && <Badge tone="ok">only reads</Badge>}
            {tool.destroys && <Badge tone="warn">may destroy</Badge>}
          </>
        }
      >
        <form class="form" onSubmit={run} aria-label={`Try ${tool.name}`}>
          <p class="muted">{tool.description}</p>
          {first.map(draw)}
          {more.length > 0 && (
            <details open={first.length === 0}>
              <summary>
                {first.length === 0 ? 'Inputs, all optional' : 'More inputs'} ({more.length})
              </summary>
              <div class="form">{more.map(draw)}</div>
            </details>
          )}
          <CopyLine block text={line(tool.name, input ?? {})} label="Copy the call" />
          {canWrite.value ? (
            <div class="form-foot">
              {stop && <Button onClick={() => stop.abort()}>Stop</Button>}
              <Button type="submit" kind={tool.destroys ? 'danger' : 'primary'} icon="play" busy={stop !== null} disabled={missing.length > 0 || input === null}>
                Run
              </Button>
            </div>
          ) : (
            <Note>This session may only read: tools are called with a key that may change things.</Note>
          )}
        </form>
      </Card>
      {ran && (
        <Card title={ran.error === undefined ? `Answered after ${millis(ran.tookMs)}` : `Failed after ${millis(ran.tookMs)}`}>
          <div role="status" aria-label="Result" ref={answer}>
            {ran.error === undefined ? <ResultView value={ran.value} /> : <ErrorNote error={ran.error} />}
          </div>
        </Card>
      )}
    </div>
  );
}

export default function Tools({ params }: { params: Record<string, string> }) {
  const { data, error, loading } = useLoad((signal) => get<{ tools: Tool[] }>('/tools', undefined, { signal }), []);
  const tools = data?.tools ?? [];
  const text = filter.value.trim().toLowerCase();
  const shown = tools.filter((tool) => `${tool.name} ${tool.title} ${tool.description}`.toLowerCase().includes(text));
  const groups = [...new Set(shown.map((tool) => tool.group))];
  const wanted = params.name ? decodeURIComponent(params.name) : undefined;
  const tool = tools.find((one) => one.name === wanted);
  return (
    <div class="page">
      <PageHead title="Tools" sub={tools.length ? `${plural(tools.length, 'tool')} for agents and workflow builders, over HTTP and MCP` : undefined} />
      <ErrorNote error={error} />
      {loading ? (
        <Spinner label="Loading the tools" />
      ) : (
        <div class="tools">
          <div class="column tool-side">
            <SearchField label="Filter the tools" value={filter.value} onInput={(next) => (filter.value = next)} />
            <nav class="tool-list" aria-label="Tools">
              {groups.map((group) => (
                <>
                  <div class="side-group">{group}</div>
                  {shown
                    .filter((one) => one.group === group)
                    .map((one) => (
                      <a key={one.name} class="side-link" href={`#/tools/${encodeURIComponent(one.name)}`} aria-current={one.name === wanted ? 'page' : undefined} title={one.title}>
                        <span class="mono ellipsis">{one.name}</span>
                      </a>
                    ))}
                </>
              ))}
              {tools.length > 0 && shown.length === 0 && <span class="muted">No tool matches the filter.</span>}
            </nav>
          </div>
          {tool ? (
            <Try key={tool.name} tool={tool} />
          ) : (
            <EmptyState title={wanted ? `There is no tool ${wanted}` : 'Choose a tool'} line={`atoll tool run_code code='print(6 * 7)'`}>
              {canWrite.value ? 'Each one has a form made of its schema. The same call works from anywhere:' : 'Each one is explained with its inputs. A key that may change things calls it from anywhere:'}
              <div class="row center">
                <Button write icon="play" onClick={() => navigate('/tools/run_code')}>
                  Try run_code
                </Button>
              </div>
            </EmptyState>
          )}
        </div>
      )}
    </div>
  );
}
