// The official MCP clients against the tools: the TypeScript SDK calls every tool of the catalogue over
// HTTP and over stdio, and checks each result against the tool's output schema; the Inspector's command
// line lists and calls.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { Sandbox } from 'e2b'
import { until } from './helpers.js'

const { E2B_API_KEY, E2B_API_URL, ATOLL_BUILD } = process.env
const ENDPOINT = `${E2B_API_URL}/mcp`
const PROGRAM = path.join(ATOLL_BUILD, 'atoll')
const INSPECTOR = '@modelcontextprotocol/inspector@2.12.0'
const CALL_MS = 110_000

const transports = {
  http: () =>
    new StreamableHTTPClientTransport(new URL(ENDPOINT), {
      requestInit: { headers: { 'X-API-Key': E2B_API_KEY } }
    }),
  stdio: () => new StdioClientTransport({ command: PROGRAM, args: ['mcp'], env: { E2B_API_KEY, E2B_API_URL } })
}

async function connect(kind) {
  const client = new Client({ name: 'atoll-tests', version: '1' })
  await client.connect(transports[kind]())
  return client
}

async function disconnect(client) {
  await client.transport.terminateSession?.()
  await client.close()
}

const sandboxIds = async () => (await Sandbox.list().nextItems()).map((info) => info.sandboxId)

// A case calls its tool, perhaps others before it, and looks at the structured content. `call` fails the
// test when the tool does. What takes minutes is called so that it refuses: its schema is checked where
// it is tested for real.
const kill = (call, { sandbox_id }) => call('kill_sandbox', { sandbox_id })
const CASES = {
  create_sandbox: async (call) => {
    const made = await call('create_sandbox', { timeout_seconds: 60, ports: [8080] })
    assert.ok(Date.parse(made.expires_at) && made.urls[0].port === 8080)
    await kill(call, made)
  },
  create_claude_code_sandbox: { refused: { permissions_preset: 'nonsense' }, says: /permissions_preset/ },
  create_nextjs_sandbox: { refused: { port: 1 }, says: /port/ },
  create_nextjs_bun_sandbox: { refused: { project_name: '../up' }, says: /project_name/ },
  list_sandboxes: async (call) => assert.ok(Array.isArray((await call('list_sandboxes')).sandboxes)),
  pause_sandbox: async (call) => {
    const made = await call('create_sandbox', { timeout_seconds: 60 })
    await call('pause_sandbox', { sandbox_id: made.sandbox_id })
    await kill(call, made)
  },
  kill_sandbox: async (call) => kill(call, await call('create_sandbox', { timeout_seconds: 60 })),
  send_sandbox_input: async (call) => {
    const ran = await call('send_sandbox_input', { action: 'shell_command', input: 'echo out; exit 3' })
    assert.equal(ran.exit_code, 3)
    assert.match(ran.stdout, /out/)
  },
  install_packages: async (call) => {
    const done = await call('install_packages', { commands: ['true', 'false'] })
    assert.equal(done.success, false)
  },
  start_shell_session: async (call) => {
    const { pid } = await call('start_shell_session', {})
    await call('kill_shell_session', { pid })
  },
  send_shell_session_input: async (call) => {
    const { pid } = await call('start_shell_session', {})
    const said = await call('send_shell_session_input', { pid, input: 'echo $((6*7))' })
    assert.match(said.output, /42/)
    await call('kill_shell_session', { pid })
  },
  kill_shell_session: async (call) => {
    const { pid } = await call('start_shell_session', {})
    await call('kill_shell_session', { pid })
  },
  setup_sandbox_heartbeat: async (call) => {
    const beat = await call('setup_sandbox_heartbeat', { command: 'date', interval: '1 minute', duration: '2 minutes' })
    assert.ok(beat.pid)
  },
  read_sandbox_file: async (call) => {
    await call('write_sandbox_file', { path: 'dir/note', content: 'kept' })
    assert.equal((await call('read_sandbox_file', { path: 'dir/note' })).content, 'kept')
  },
  write_sandbox_file: async (call) => {
    assert.equal((await call('write_sandbox_file', { path: 'x', content: 'aGk=', encoding: 'base64' })).bytes, 2)
  },
  run_code: async (call) => {
    const ran = await call('run_code', { code: 'print(6 * 7)' })
    assert.match(ran.logs.stdout.join(''), /42/)
  },
  write_code_artifact: async (call) => {
    const kept = await call('write_code_artifact', { codePath: `mcp/${randomUUID()}.py`, content: 'print(1)' })
    assert.equal(kept.version, 1)
    await call('delete_code_artifact', { codePath: kept.codePath })
  },
  read_code_artifact: async (call) => {
    const { codePath } = await call('write_code_artifact', { codePath: `mcp/${randomUUID()}.py`, content: 'print(2)' })
    assert.equal((await call('read_code_artifact', { codePath })).content, 'print(2)')
    await call('delete_code_artifact', { codePath })
  },
  list_code_artifacts: async (call) => {
    assert.ok(Array.isArray((await call('list_code_artifacts')).artifacts))
  },
  delete_code_artifact: async (call) => {
    const { codePath } = await call('write_code_artifact', { codePath: `mcp/${randomUUID()}.py`, content: 'x' })
    assert.equal((await call('delete_code_artifact', { codePath })).codePath, codePath)
  },
  run_code_artifact: async (call) => {
    const content = 'echo ran; cat'
    const { codePath } = await call('write_code_artifact', { codePath: `mcp/${randomUUID()}.sh`, content })
    const ran = await call('run_code_artifact', { codePath, input: { key: 'value' } })
    assert.ok(ran.success && /ran/.test(ran.stdout) && /value/.test(ran.stdout), JSON.stringify(ran))
    await call('delete_code_artifact', { codePath })
  },
  guard_output: async (call) => {
    const secret = randomUUID()
    const guarded = await call('guard_output', { text: `a ${secret} b`, mode: 'redact', secrets: [secret] })
    assert.equal(guarded.text, 'a [REDACTED] b')
  },
  build_template: { refused: { alias: '' }, says: /alias/ },
  list_templates: async (call) => {
    assert.ok((await call('list_templates')).templates.length > 0)
  }
}

for (const kind of Object.keys(transports)) {
  describe(`over ${kind}`, () => {
    let client, tools, existing
    before(async () => {
      existing = await sandboxIds()
      client = await connect(kind)
      tools = (await client.listTools()).tools
    })
    after(async () => {
      await disconnect(client)
      await until(async () => (await sandboxIds()).every((id) => existing.includes(id)), 'its sandbox is gone')
    })

    async function call(name, args = {}) {
      const result = await client.callTool({ name, arguments: args }, undefined, { timeout: CALL_MS })
      assert.ok(!result.isError, JSON.stringify(result.content))
      return result.structuredContent
    }

    test('the server introduces itself', () => {
      assert.equal(client.getServerVersion().name, 'atoll')
      assert.match(client.getInstructions(), /sandbox_id/)
    })

    test('every tool has a case, and a sandbox may be left out', () => {
      assert.deepEqual(tools.filter((tool) => !(tool.name in CASES)).map((tool) => tool.name), [])
      for (const tool of tools) {
        assert.ok(tool.description && tool.title && tool.outputSchema, tool.name)
        assert.ok(!tool.inputSchema.required?.includes('sandbox_id'), tool.name)
      }
    })

    for (const [name, run] of Object.entries(CASES)) {
      test(`${name} works`, async () => {
        assert.ok(tools.some((tool) => tool.name === name), 'the catalogue has it')
        if (run.refused) {
          const result = await client.callTool({ name, arguments: run.refused })
          assert.ok(result.isError)
          assert.match(result.content[0].text, run.says)
        } else {
          await run(call)
        }
      })
    }

    test('a chart is a picture, and a word in the text', async () => {
      const code = 'import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()'
      const result = await client.callTool({ name: 'run_code', arguments: { code } }, undefined, { timeout: CALL_MS })
      assert.notEqual(result.structuredContent?.template, 'base', 'the interpreter is used')
      const picture = result.content.find((part) => part.type === 'image')
      assert.equal(picture.mimeType, 'image/png')
      assert.equal(Buffer.from(picture.data, 'base64').toString('latin1', 1, 4), 'PNG')
      assert.match(result.structuredContent.results[0].png, /^.picture 1/)
    })

    test('progress is told, and a call can be cancelled', async () => {
      const told = []
      const options = { onprogress: (progress) => told.push(progress), timeout: CALL_MS }
      const params = { name: 'install_packages', arguments: { commands: ['sleep 1', 'true'] } }
      await client.callTool(params, undefined, options)
      assert.ok(told.length > 0 && told.every((one, i) => i === 0 || one.progress > told[i - 1].progress))

      const abort = new AbortController()
      const slow = { name: 'send_sandbox_input', arguments: { action: 'shell_command', input: 'touch begun; sleep 301' } }
      const running = client.callTool(slow, undefined, { signal: abort.signal, timeout: CALL_MS })
      const ps = () => call('send_sandbox_input', { action: 'shell_command', input: 'pgrep -fc "[s]leep 301"' })
      await until(async () => (await ps()).exit_code === 0, 'the command runs')
      abort.abort('a test')
      await assert.rejects(running)
      await until(async () => (await ps()).exit_code === 1, 'the command is gone')
    })
  })
}

// ---- the Inspector ----

// It brings a web page and what builds it, so it is kept beside the tests' own packages, for all runs.
const home = path.join(process.env.ATOLL_CACHE ?? '/var/cache/atoll', INSPECTOR.replaceAll(/[^a-z0-9.]/g, '-'))
const program = path.join(home, 'node_modules/.bin/mcp-inspector')

function run(command, ...args) {
  const PATH = `${path.dirname(process.execPath)}:${process.env.PATH}`
  const options = { env: { ...process.env, PATH, HOME: home, NO_COLOR: '1' } }
  return new Promise((resolve, reject) => {
    execFile(command, args, options, (error, stdout, stderr) =>
      error ? reject(new Error(`${error.message}\n${stderr}${stdout}`)) : resolve(stdout)
    )
  })
}

const inspect = async (...args) => JSON.parse(await run(program, '--cli', ...args))

const targets = {
  http: [ENDPOINT, '--transport', 'http', '--header', `X-API-Key: ${E2B_API_KEY}`],
  stdio: [PROGRAM, 'mcp', '-e', `E2B_API_KEY=${E2B_API_KEY}`, '-e', `E2B_API_URL=${E2B_API_URL}`]
}

describe('the Inspector', () => {
  before(async () => {
    if (!fs.existsSync(program)) {
      const quietly = ['--no-audit', '--no-fund', '--loglevel=error', '--ignore-scripts']
      fs.mkdirSync(home, { recursive: true })
      await run('npm', 'install', '--prefix', home, ...quietly, INSPECTOR)
    }
  }, { timeout: 600_000 })

  for (const [kind, target] of Object.entries(targets)) {
    test(`lists and calls over ${kind}`, async () => {
      const { tools } = await inspect(...target, '--method', 'tools/list', '--strict')
      assert.ok(tools.some((tool) => tool.name === 'list_templates'))
      const result = await inspect(...target, '--method', 'tools/call', '--tool-name', 'list_templates')
      assert.ok(result.structuredContent.templates.length > 0)
    })
  }
})
