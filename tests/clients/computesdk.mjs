// ComputeSDK: its E2B provider.
//
// A command in the background is given no directory: the client then runs `nohup cd DIR && ...`, which fails.

import assert from 'node:assert/strict'
import { e2b } from '@computesdk/e2b'
import { run, step } from './steps.mjs'

const provider = e2b({})

async function commands(sandbox) {
  const result = await sandbox.runCommand('printenv GIVEN MADE; pwd; echo err >&2; exit 3', { env: { GIVEN: 'too' }, cwd: '/tmp' })
  assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['too\nyes\n/tmp\n', 'err\n', 3])
}

async function files(sandbox) {
  await sandbox.filesystem.mkdir('/home/user/dir')
  await sandbox.filesystem.writeFile('/home/user/dir/note.txt', 'kept \u00e9')
  assert.equal(await sandbox.filesystem.readFile('/home/user/dir/note.txt'), 'kept \u00e9')
  const entries = await sandbox.filesystem.readdir('/home/user/dir')
  assert.deepEqual(entries.map(({ name, size }) => [name, size]), [['note.txt', 7]])
  await sandbox.filesystem.remove('/home/user/dir')
  assert.equal(await sandbox.filesystem.exists('/home/user/dir'), false)
}

async function port(sandbox) {
  await sandbox.filesystem.writeFile('/home/user/www/note.txt', 'served')
  await sandbox.runCommand('python3 -m http.server 8000 --directory /home/user/www', { background: true })
  await sandbox.runCommand('until curl -s localhost:8000 >/dev/null; do sleep 0.1; done')
  const url = await sandbox.getUrl({ port: 8000 })
  if (process.env.E2B_DOMAIN) { // by URLs there is no name for a port
    assert.equal(await (await fetch(`${url}/note.txt`)).text(), 'served')
  }
}

async function found(sandbox) {
  const same = await provider.sandbox.getById(sandbox.sandboxId)
  assert.equal((await same.runCommand('echo same')).stdout, 'same\n')
  const all = await provider.sandbox.list()
  assert.ok(all.some((one) => one.sandboxId === sandbox.sandboxId))
  assert.equal(await provider.sandbox.getById('nosuchsandbox000000'), null)
}

async function snapshot(sandbox) {
  await sandbox.runCommand('echo kept > /home/user/state')
  const made = await provider.snapshot.create(sandbox.sandboxId, { name: process.env.CLIENT_NAME })
  const copy = await provider.sandbox.create({ snapshotId: made.id })
  assert.equal(await copy.filesystem.readFile('/home/user/state'), 'kept\n')
  await copy.destroy()
}

// The client tells by the words of an error that the key is wrong.
async function wrongKey() {
  const other = e2b({ apiKey: `e2b_${'0'.repeat(40)}` })
  await assert.rejects(other.sandbox.create(), /E2B authentication failed/)
}

async function destroyed(sandbox) {
  await sandbox.destroy()
  assert.equal(await provider.sandbox.getById(sandbox.sandboxId), null)
}

await run(async () => {
  const options = { timeout: 120_000, envs: { MADE: 'yes' }, metadata: { by: 'computesdk' } }
  const sandbox = await step('create', () => provider.sandbox.create(options))
  await step('commands', commands, sandbox)
  await step('files', files, sandbox)
  await step('port', port, sandbox)
  await step('by id, in the list', found, sandbox)
  await step('snapshot and a sandbox from it', snapshot, sandbox)
  await step('destroy', destroyed, sandbox)
  await step('a wrong key', wrongKey)
})
