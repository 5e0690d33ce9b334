// e2b-sandbox-mcp: an MCP server over E2B sandboxes, driven by the MCP SDK's client over stdio.

import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { run, step } from './steps.mjs'

const client = new Client({ name: 'tests', version: '1' })
let id // of the sandbox

async function call(name, args = {}) {
  const result = await client.callTool({ name, arguments: args })
  return { failed: !!result.isError, text: result.content.map((part) => part.text).join('\n') }
}

async function good(name, args = {}) {
  const { failed, text } = await call(name, { sandboxId: id, ...args })
  assert.ok(!failed, text)
  return text
}

async function start() {
  const server = join(dirname(createRequire(import.meta.url).resolve('e2b-sandbox-mcp')), 'index.js')
  await client.connect(new StdioClientTransport({ command: process.execPath, args: [server], env: process.env, stderr: 'inherit' }))
  const { tools } = await client.listTools()
  assert.ok(tools.length > 20, `${tools.length} tools`)
  id = JSON.parse((await call('sandbox_create', { timeoutMs: 120_000 })).text).sandboxId
}

async function commands() {
  const said = await good('sandbox_exec', { command: 'echo out; echo err >&2' })
  assert.match(said, /out/)
  assert.match(said, /err/)
  const { text } = await call('sandbox_exec', { sandboxId: id, command: 'exit 3' })
  assert.match(text, /3/)
  const pid = Number(/"?pid"?\D*(\d+)/i.exec(await good('sandbox_exec_background', { command: 'sleep 600' }))[1])
  assert.match(await good('sandbox_process_list'), new RegExp(`${pid}`))
  await good('sandbox_process_kill', { pid })
}

async function files() {
  await good('sandbox_file_mkdir', { path: '/home/user/dir' })
  await good('sandbox_file_write', { path: '/home/user/dir/note.txt', content: 'kept \u00e9' })
  assert.match(await good('sandbox_file_read', { path: '/home/user/dir/note.txt' }), /kept \u00e9/)
  assert.match(await good('sandbox_file_list', { path: '/home/user/dir' }), /\[FILE\].*note\.txt/)
  assert.match(await good('sandbox_file_info', { path: '/home/user/dir/note.txt' }), /7/)
  await good('sandbox_file_rename', { oldPath: '/home/user/dir/note.txt', newPath: '/home/user/dir/moved.txt' })
  assert.match(await good('sandbox_file_exists', { path: '/home/user/dir/note.txt' }), /false/)
  await good('sandbox_file_remove', { path: '/home/user/dir' })
  assert.ok((await call('sandbox_file_read', { sandboxId: id, path: '/nowhere' })).failed)
}

async function git() {
  const path = '/home/user/repo'
  await good('sandbox_file_mkdir', { path })
  await good('sandbox_git_init', { path })
  await good('sandbox_file_write', { path: `${path}/a.txt`, content: 'a' })
  assert.match(await good('sandbox_git_status', { repoPath: path }), /a\.txt/)
  await good('sandbox_git_commit', { repoPath: path, message: 'first', authorName: 'A', authorEmail: 'a@example.org' })
  await good('sandbox_git_branch', { repoPath: path, action: 'create', branchName: 'side' })
  assert.match(await good('sandbox_git_branch', { repoPath: path, action: 'list' }), /side/)
  assert.match(await good('sandbox_exec', { command: `git -C ${path} log --format='%an %s'` }), /A first/)
}

const link = (text) => /https?:\/\/[^\s"]+/.exec(text)[0]

async function links() {
  const form = new FormData()
  form.append('file', new Blob(['up']), 'up.txt')
  const up = await fetch(link(await good('sandbox_upload_url', { path: '/home/user/up.txt' })), { method: 'POST', body: form })
  assert.equal(up.status, 200)
  const down = await fetch(link(await good('sandbox_download_url', { path: '/home/user/up.txt' })))
  assert.equal(await down.text(), 'up')
  await good('sandbox_exec_background', { command: 'python3 -m http.server 8000' })
  await good('sandbox_exec', { command: 'until curl -s localhost:8000 >/dev/null; do sleep 0.1; done' })
  const url = link(await good('sandbox_get_url', { port: 8000 }))
  if (process.env.E2B_DOMAIN) { // by URLs there is no name for a port
    assert.equal(await (await fetch(`${url}/up.txt`)).text(), 'up')
  }
}

async function pause() {
  await good('sandbox_keep_alive', { timeoutMs: 200_000 })
  await good('sandbox_file_write', { path: '/tmp/state', content: '41' })
  await good('sandbox_pause')
  await good('sandbox_resume', { timeoutMs: 120_000 })
  assert.match(await good('sandbox_file_read', { path: '/tmp/state' }), /41/)
}

async function kill() {
  await good('sandbox_kill')
  assert.ok((await call('sandbox_exec', { sandboxId: id, command: 'true' })).failed)
}

await run(async () => {
  await step('create', start)
  await step('commands, processes', commands)
  await step('files', files)
  await step('git', git)
  await step('signed URLs up and down, port', links)
  await step('keep alive, pause, resume', pause)
  await step('kill', kill)
  await client.close()
})
