// OpenAI Agents SDK for JavaScript: its E2B sandbox client, from a manifest to a session that is resumed.

import assert from 'node:assert/strict'
import { E2BSandboxClient } from '@openai/agents-extensions/sandbox/e2b'
import { Manifest } from '@openai/agents/sandbox'
import { run, step } from './steps.mjs'

const PORT = 8000

function make(options = {}) {
  return new E2BSandboxClient({ timeout: 120, env: { MADE: 'yes' }, ...options })
}

const manifest = () => new Manifest({ entries: { 'given.txt': { type: 'file', content: 'given\n' } } })

async function commands(session) {
  const said = await session.execCommand({ cmd: 'echo $MADE; pwd; cat given.txt; echo err >&2; exit 3' })
  assert.match(said, /yes\n\/workspace\ngiven\n/)
  assert.match(said, /err/)
  assert.match(said, /exited with code 3/)
}

async function files(session) {
  await session.execCommand({ cmd: 'mkdir -p dir; printf "\\000\\377" > dir/bytes' })
  assert.deepEqual(Buffer.from(await session.readFile({ path: 'dir/bytes' })), Buffer.from([0, 255]))
  assert.equal(await session.pathExists('dir/bytes'), true)
  assert.equal(await session.pathExists('nowhere'), false)
  const editor = session.createEditor()
  await editor.createFile({ type: 'create_file', path: 'edited.txt', diff: '+one\n+two\n' })
  assert.equal(Buffer.from(await session.readFile({ path: 'edited.txt' })).toString().trim(), 'one\ntwo')
}

async function terminal(session) {
  const said = await session.execCommand({ cmd: 'python3 -q', tty: true, yieldTimeMs: 3000 })
  const id = Number(/session ID (\d+)/i.exec(said)[1])
  assert.match(await session.writeStdin({ sessionId: id, chars: 'print(6 * 7)\n', yieldTimeMs: 3000 }), /42/)
}

async function port(session) {
  await session.execCommand({ cmd: `nohup python3 -m http.server ${PORT} >/dev/null 2>&1 &` })
  await session.execCommand({ cmd: `until curl -s localhost:${PORT} >/dev/null; do sleep 0.1; done` })
  const endpoint = await session.resolveExposedPort(PORT)
  if (process.env.E2B_DOMAIN) { // by URLs there is no name for a port
    const answer = await fetch(`https://${endpoint.host}:${endpoint.port}/given.txt`)
    assert.equal(await answer.text(), 'given\n')
  }
}

async function paused() {
  const client = make({ pauseOnExit: true })
  const session = await client.create(manifest())
  await session.execCommand({ cmd: 'echo kept > note; nohup sleep 600 >/dev/null 2>&1 & echo $! > pid' })
  await session.close()
  const state = await client.deserializeSessionState(await client.serializeSessionState(session.state))
  const again = await client.resume(state)
  assert.equal(again.state.sandboxId, session.state.sandboxId)
  assert.match(await again.execCommand({ cmd: 'cat note; kill -0 $(cat pid) && echo alive' }), /kept\nalive/)
  await again.delete()
}

async function persisted(how) {
  const client = make({ workspacePersistence: how })
  const [first, second] = [await client.create(new Manifest()), await client.create(new Manifest())]
  await first.execCommand({ cmd: 'mkdir -p a/b; echo kept > a/b/note' })
  await second.hydrateWorkspace(await first.persistWorkspace())
  assert.match(await second.execCommand({ cmd: 'cat a/b/note' }), /kept/)
  await first.close()
  await second.close()
}

await run(async () => {
  const session = await step('create, manifest', () => make({ exposedPorts: [PORT] }).create(manifest()))
  await step('commands, exit code', commands, session)
  await step('files, editor', files, session)
  await step('terminal', terminal, session)
  await step('port', port, session)
  await step('close', () => session.close())
  await step('pause at the end, resume', paused)
  await step('workspace as an archive', persisted, 'tar')
  await step('workspace as a snapshot', persisted, 'snapshot')
})
