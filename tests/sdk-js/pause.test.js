// Pause, resume, snapshot and fork.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Sandbox } from 'e2b'
import { edgeFetch, makeSandbox, sleep, until } from './helpers.js'

test('a paused sandbox goes on where it was', async () => {
  const sandbox = await makeSandbox({ envs: { WORD: 'kept' } })
  const counter = 'i=0; while true; do i=$((i+1)); echo $i > /tmp/count; sleep 0.01; done'
  const command = await sandbox.commands.run(counter, { background: true, timeoutMs: 0 })
  const ended = command.wait().then(
    () => 'well',
    (error) => error.message,
  )
  await until(() => sandbox.files.exists('/tmp/count'), 'it counts')
  assert.equal(await sandbox.pause(), true)
  assert.match(await ended, /the sandbox is being paused/)
  assert.equal(await sandbox.isRunning(), false)
  assert.equal(await sandbox.pause(), false)

  const again = await Sandbox.connect(sandbox.sandboxId)
  const count = Number(await again.files.read('/tmp/count'))
  assert.ok(count > 0)
  await until(async () => Number(await again.files.read('/tmp/count')) > count, 'it counts on')
  assert.deepEqual(
    (await again.commands.list()).map((process) => process.pid),
    [command.pid],
  )
  assert.equal((await again.commands.run('echo $WORD')).stdout, 'kept\n')
})

test('output waits for who comes back', async () => {
  const sandbox = await makeSandbox()
  const loop = 'for i in $(seq 200); do echo $i; sleep 0.01; done'
  const command = await sandbox.commands.run(loop, { background: true, timeoutMs: 0 })
  await until(() => command.stdout.length > 20, 'it prints')
  await Promise.allSettled([sandbox.pause(), command.wait()])
  const again = await Sandbox.connect(sandbox.sandboxId)
  const rest = await (await again.commands.connect(command.pid, { timeoutMs: 0 })).wait()
  const expected = Array.from({ length: 200 }, (_, i) => `${i + 1}\n`).join('')
  assert.equal(command.stdout + rest.stdout, expected)
})

const NUMBERS = 120
const COUNT = `i=0; while [ $i -lt ${NUMBERS} ]; do echo $i; i=$((i+1)); sleep 0.05; done`
const ALL = Array.from({ length: NUMBERS }, (_, i) => i)
const numbers = (text) => text.split(/\r?\n/).filter((line) => /^\d+$/.test(line)).map(Number)

async function overAPause(sandbox, restMs = 0) {
  assert.equal(await Sandbox.pause(sandbox.sandboxId), true)
  await sleep(restMs)
  await Sandbox.connect(sandbox.sandboxId)
}

test('a client that holds its stream notices nothing of a short pause', async () => {
  const sandbox = await makeSandbox()
  const command = await sandbox.commands.run(`${COUNT}; exit 7`, { background: true, timeoutMs: 0 })
  const ended = command.wait().then(assert.fail, (error) => error.exitCode)
  await until(() => command.stdout.length > 10, 'it counts')
  await overAPause(sandbox)
  await overAPause(sandbox, 2000)
  assert.equal(await ended, 7)
  assert.deepEqual(numbers(command.stdout), ALL)
})

// The second fills the kernel's buffer of the terminal, which is not part of a save.
const FLOOD = 60_000
const COUNTERS = [
  ['slowly', COUNT, NUMBERS],
  ['without a rest', `seq 0 ${FLOOD - 1}`, FLOOD],
]

for (const [how, count, amount] of COUNTERS) {
  test(`a terminal that counts ${how} goes on over a pause`, () => countsOverAPause(count, amount))
}

async function countsOverAPause(count, amount) {
  const sandbox = await makeSandbox()
  let said = ''
  const decoder = new TextDecoder()
  const terminal = await sandbox.pty.create({
    cols: 100,
    rows: 30,
    timeoutMs: 0,
    onData: (data) => (said += decoder.decode(data, { stream: true })),
  })
  const type = (text) => sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode(text))
  await type("stty -echo; PS1=; echo re''ady\n")
  await until(() => said.includes('ready'), 'the shell')
  await type(`(${count}; echo end)\n`)
  await until(() => said.includes('\n5\r'), 'it counts')
  await overAPause(sandbox)
  await until(() => said.includes('\nend\r'), 'it counted')
  await type('echo still-$((40 + 2)); exit\n')
  await terminal.wait()
  assert.deepEqual(
    numbers(said),
    Array.from({ length: amount }, (_, i) => i),
  )
  assert.match(said, /still-42/)
}

test('a kill while it is paused ends the stream', async () => {
  const sandbox = await makeSandbox()
  const command = await sandbox.commands.run('echo begun; sleep 1000', { background: true, timeoutMs: 0 })
  const ended = command.wait().then(assert.fail, (error) => error.message)
  await until(() => command.stdout.length > 0, 'it runs')
  await sandbox.pause()
  await sandbox.kill()
  assert.match(await ended, /the sandbox is being paused/)
})

test('forks are apart', async () => {
  const sandbox = await makeSandbox()
  await sandbox.files.write('/tmp/who', 'parent')
  const forks = await sandbox.fork({ count: 3, timeoutMs: 120_000 })
  try {
    assert.equal(new Set(forks.map((fork) => fork.sandboxId)).size, 3)
    await Promise.all(forks.map((fork) => fork.files.write('/tmp/who', fork.sandboxId)))
    for (const fork of forks) {
      assert.equal(await fork.files.read('/tmp/who'), fork.sandboxId)
      assert.equal((await fork.commands.run('hostname')).stdout.trim(), fork.sandboxId)
    }
    assert.equal(await sandbox.files.read('/tmp/who'), 'parent')
  } finally {
    await Promise.all(forks.map((fork) => fork.kill()))
  }
})

test('traffic wakes a sandbox that says so', async () => {
  const sandbox = await makeSandbox({ lifecycle: { onTimeout: 'pause', autoResume: true } })
  await sandbox.commands.run('python3 -m http.server 8000', { background: true, timeoutMs: 0 })
  await until(async () => (await edgeFetch(sandbox, 8000, '/')).status === 200, 'it serves')
  await sandbox.pause()
  assert.equal((await sandbox.getInfo()).state, 'paused')
  assert.equal((await edgeFetch(sandbox, 8000, '/')).status, 200)
  assert.equal((await sandbox.getInfo()).state, 'running')
})

test('a snapshot is there until it is deleted', async () => {
  const sandbox = await makeSandbox()
  await sandbox.files.write('/tmp/note', 'kept')
  const { snapshotId } = await sandbox.createSnapshot()
  await sandbox.kill()
  const copy = await Sandbox.create(snapshotId)
  assert.equal(await copy.files.read('/tmp/note'), 'kept')
  assert.equal(await Sandbox.deleteSnapshot(snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(snapshotId), false)
  await copy.kill()
  await assert.rejects(Sandbox.create(snapshotId), /not found/)
})
