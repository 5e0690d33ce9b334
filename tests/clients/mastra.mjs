// Mastra: its E2B sandbox for workspaces.
//
// Of commands that fail only the exit code is looked at: wait() adds the output in the SDK's error to what
// was streamed already, so it is there twice with any server.

import assert from 'node:assert/strict'
import { E2BSandbox } from '@mastra/e2b'
import { Sandbox } from 'e2b'
import { run, step } from './steps.mjs'

const ID = `${process.env.CLIENT_NAME}-${process.pid}`

function make(options = {}) {
  return new E2BSandbox({ id: ID, template: 'base', timeout: 120_000, env: { MADE: 'yes' }, metadata: { by: 'mastra' }, ...options })
}

async function commands(sandbox) {
  const result = await sandbox.executeCommand('sh', ['-c', 'echo $MADE $GIVEN; pwd; echo err >&2'],
    { env: { GIVEN: 'too' }, cwd: '/tmp' })
  assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['yes too\n/tmp\n', 'err\n', 0])
  assert.equal((await sandbox.executeCommand('sh', ['-c', 'exit 3'])).exitCode, 3)
}

async function processes(sandbox) {
  const handle = await sandbox.processes.spawn('read line; echo got $line')
  const listed = await sandbox.processes.list()
  assert.ok(listed.some((one) => String(one.pid) === String(handle.pid)), JSON.stringify(listed))
  await handle.sendStdin('typed\n')
  const result = await handle.wait()
  assert.deepEqual([result.stdout, result.exitCode], ['got typed\n', 0])
  const other = await sandbox.processes.spawn('sleep 600')
  assert.ok(await other.kill())
}

async function files(sandbox) {
  await sandbox.writeFiles([{ path: '/home/user/dir/a.txt', content: 'one' }, { path: '/home/user/dir/b', content: new Uint8Array([0, 255]) }])
  assert.equal(await sandbox.e2b.files.read('/home/user/dir/a.txt'), 'one')
  assert.deepEqual(await sandbox.e2b.files.read('/home/user/dir/b', { format: 'bytes' }), new Uint8Array([0, 255]))
}

async function port(sandbox) {
  await sandbox.processes.spawn('python3 -m http.server 8000 --directory /home/user/dir')
  await sandbox.executeCommand('sh', ['-c', 'until curl -s localhost:8000 >/dev/null; do sleep 0.1; done'])
  const url = await sandbox.networking.getPortUrl(8000)
  if (process.env.E2B_DOMAIN) { // by URLs there is no name for a port
    assert.equal(await (await fetch(`${url.url ?? url}/a.txt`)).text(), 'one')
  }
}

// stop() pauses; another object with the same id finds the sandbox and goes on.
async function pause(sandbox) {
  const handle = await sandbox.processes.spawn('sleep 600')
  const id = sandbox.e2b.sandboxId
  await sandbox.stop()
  const again = make()
  await again.start()
  assert.equal(again.e2b.sandboxId, id)
  const listed = await again.processes.list()
  assert.ok(listed.some((one) => String(one.pid) === String(handle.pid)), 'the process did not outlive the pause')
  return again
}

// A sandbox that ended behind its back is made anew, by the words of the error.
async function dead(sandbox) {
  const old = sandbox.e2b.sandboxId
  await Sandbox.kill(old)
  const result = await sandbox.executeCommand('echo', ['again'])
  assert.equal(result.stdout, 'again\n')
  assert.notEqual(sandbox.e2b.sandboxId, old)
}

// The default template, which has s3fs and fuse installed.
async function custom() {
  const sandbox = make({ id: `${ID}-built`, template: (base) => base.runCmd('echo built > /tmp/built') })
  await sandbox.start()
  try {
    assert.equal((await sandbox.executeCommand('cat', ['/tmp/built'])).stdout, 'built\n')
    assert.match((await sandbox.executeCommand('which', ['s3fs'])).stdout, /s3fs/)
  } finally {
    await sandbox.destroy()
  }
}

await run(async () => {
  let sandbox = make()
  await step('start', () => sandbox.start())
  await step('commands', commands, sandbox)
  await step('processes, standard input', processes, sandbox)
  await step('files', files, sandbox)
  await step('port', port, sandbox)
  sandbox = (await step('stop (pause), found again by its metadata', pause, sandbox)) ?? sandbox
  await step('a sandbox that ended is made anew', dead, sandbox)
  await step('destroy', () => sandbox.destroy())
  await step('template built from the default one', custom)
})
