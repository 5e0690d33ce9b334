// The SDK's `mcp` option: real MCP servers from npm in one gateway, asked by the official MCP client.

import assert from 'node:assert/strict'
import fs from 'node:fs'
import { test } from 'node:test'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { Sandbox, Template } from 'e2b'
import { makeSandbox } from './helpers.js'

const mcp = { filesystem: { paths: ['/home/user'] }, memory: {}, sequentialthinking: {} }

// The servers are installed once, as addMcpServer does it.
const alias = `gateway-js-${Date.now()}`
await Template.build(Template().fromTemplate('mcp-gateway').addMcpServer(Object.keys(mcp)), alias)
const sandbox = await makeSandbox({ template: alias, mcp })

// By getMcpUrl() as it is: `atoll env` has told whom to trust.
async function connect(token) {
  const headers = { Authorization: `Bearer ${token}` }
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(new StreamableHTTPClientTransport(new URL(sandbox.getMcpUrl()), { requestInit: { headers } }))
  return client
}

test('tools of three servers are listed and called', async () => {
  const client = await connect(await sandbox.getMcpToken())
  try {
    const names = (await client.listTools()).tools.map((tool) => tool.name)
    for (const name of ['filesystem-write_file', 'memory-read_graph', 'sequentialthinking-sequentialthinking']) {
      assert.ok(names.includes(name), name)
    }
    const file = { path: '/home/user/note.txt', content: 'from a tool' }
    await client.callTool({ name: 'filesystem-write_file', arguments: file })
    assert.equal(await sandbox.files.read('/home/user/note.txt'), 'from a tool')

    const entities = [{ name: 'Ada', entityType: 'person', observations: ['wrote programs'] }]
    await client.callTool({ name: 'memory-create_entities', arguments: { entities } })
    const graph = await client.callTool({ name: 'memory-read_graph', arguments: {} })
    assert.match(graph.content[0].text, /wrote programs/)

    const thought = { thought: 'one', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 }
    const thinking = await client.callTool({ name: 'sequentialthinking-sequentialthinking', arguments: thought })
    assert.match(thinking.content[0].text, /thoughtNumber/)
  } finally {
    await client.close()
  }
})

test('a wrong token', async () => {
  await assert.rejects(connect('wrong'), /401|Unauthorized|bearer token/)
})

test('a server that is not in the catalogue', async () => {
  await assert.rejects(
    Sandbox.create({ mcp: { invalid_server: {} } }),
    /Failed to start MCP gateway: mcp-gateway: unknown MCP server invalid_server/
  )
})

// ---- the types ----

const KINDS = { string: ['string'], number: ['integer', 'number'], boolean: ['boolean'], 'string[]': ['strings'] }

// The members of an interface in the SDK's declarations: { name: [type, whether it may be left out] }.
function members(declarations, name) {
  const begin = declarations.match(new RegExp(`^interface ${name.replace('$', '\\$')} \\{`, 'm'))
  const rest = declarations.slice(begin.index + begin[0].length)
  const body = rest.startsWith('}') ? '' : rest.slice(0, rest.indexOf('\n}'))
  const lines = body.replace(/\/\*.*?\*\//gs, '').matchAll(/^ {2}'?([\w-]+)'?(\??): (.*);$/gm)
  return Object.fromEntries([...lines].map(([, field, optional, type]) => [field, [type, optional === '?']]))
}

test('the catalogue has every server and every field of the types', () => {
  const read = (path) => fs.readFileSync(new URL(path, import.meta.url), 'utf8')
  const declarations = read('node_modules/e2b/dist/index.d.ts')
  const catalogue = JSON.parse(read('../../templates/mcp-gateway/catalogue.json'))
  const servers = Object.entries(members(declarations, 'McpServer'))
  assert.ok(servers.length >= 265)
  for (const [server, [type]] of servers) {
    const fields = members(declarations, type)
    const ours = catalogue[server]?.fields ?? {}
    assert.ok(catalogue[server], server)
    assert.deepEqual(Object.keys(ours).sort(), Object.keys(fields).sort(), server)
    for (const [field, [kind, optional]] of Object.entries(fields)) {
      assert.ok(KINDS[kind].includes(ours[field].replace('?', '')), `${server}.${field}`)
      assert.ok(ours[field].endsWith('?') || !optional, `${server}.${field}`)
    }
  }
})
