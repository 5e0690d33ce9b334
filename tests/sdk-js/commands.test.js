// commands: output, failures, users, environment, background processes, stdin.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AuthenticationError, CommandExitError, InvalidArgumentError, NotFoundError } from 'e2b'
import { SandboxError, TimeoutError } from 'e2b'
import { makeSandbox } from './helpers.js'

const sandbox = await makeSandbox({ envs: { FOR_ALL: 'everyone' } })

const run = (cmd, options) => sandbox.commands.run(cmd, options)

test('stdout and stderr stay apart', async () => {
  const result = await run('echo out; echo err >&2')
  assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['out\n', 'err\n', 0])
})

test('a failure carries everything', async () => {
  await assert.rejects(run('echo before; echo why >&2; exit 42'), (error) => {
    assert.ok(error instanceof CommandExitError)
    assert.deepEqual([error.stdout, error.stderr, error.exitCode], ['before\n', 'why\n', 42])
    assert.equal(error.error, 'exit status 42')
    return true
  })
})

test('a signal is not an exit code', async () => {
  await assert.rejects(run('kill -KILL $$'), { exitCode: -1, error: 'signal: killed' })
})

test('output is delivered as it comes', async () => {
  let out = ''
  let err = ''
  await run('for i in 1 2 3; do echo out $i; echo err $i >&2; done', {
    onStdout: (data) => (out += data),
    onStderr: (data) => (err += data),
  })
  assert.equal(out, 'out 1\nout 2\nout 3\n')
  assert.equal(err, 'err 1\nerr 2\nerr 3\n')
})

test('a long output arrives whole and in order', async () => {
  const expected = Array.from({ length: 300_000 }, (_, i) => `${i + 1}\n`).join('')
  assert.equal((await run('seq 1 300000')).stdout, expected)
})

test('multibyte characters survive chunk borders', async () => {
  const result = await run(`python3 -c "print('a' + '海🐟' * 40000)"`)
  assert.equal(result.stdout, 'a' + '海🐟'.repeat(40_000) + '\n')
})

test('users', async () => {
  assert.equal((await run('whoami; pwd')).stdout, 'user\n/home/user\n')
  assert.equal((await run('whoami; pwd', { user: 'root' })).stdout, 'root\n/root\n')
  assert.equal((await run('sudo -n whoami')).stdout, 'root\n')
  await assert.rejects(run('true', { user: 'nobody-here' }), AuthenticationError)
})

test('cwd', async () => {
  assert.equal((await run('pwd', { cwd: '/usr/share' })).stdout, '/usr/share\n')
  await assert.rejects(run('pwd', { cwd: '/not/there' }), InvalidArgumentError)
})

test('environment', async () => {
  const result = await run('echo "$FOR_ALL $MINE"', { envs: { MINE: `it's "quoted"` } })
  assert.equal(result.stdout, `everyone it's "quoted"\n`)
  assert.equal((await run('echo "[$MINE]"')).stdout, '[]\n')
  assert.equal((await run('echo $E2B_SANDBOX_ID')).stdout, `${sandbox.sandboxId}\n`)
})

test('a timeout ends the command', async () => {
  await assert.rejects(run('sleep 1234', { timeoutMs: 1000 }), TimeoutError)
  const check = 'for i in $(seq 100); do pgrep -f "^sleep 123[4]" || exit 0; sleep 0.1; done; exit 1'
  assert.equal((await run(check)).exitCode, 0)
})

test('a background command: list, connect, stdin, the end of stdin', async () => {
  const first = await run('while read line; do echo got $line; done', {
    background: true,
    stdin: true,
  })
  const listed = (await sandbox.commands.list()).find((process) => process.pid === first.pid)
  assert.equal(listed.cmd, '/bin/bash')

  await first.disconnect()
  const second = await sandbox.commands.connect(first.pid)
  await sandbox.commands.sendStdin(first.pid, 'one\ntwo\n')
  await sandbox.commands.closeStdin(first.pid)
  assert.equal((await second.wait()).stdout, 'got one\ngot two\n')
})

test('killing a background command', async () => {
  const handle = await run('sleep 1000', { background: true })
  assert.equal(await handle.kill(), true)
  await assert.rejects(handle.wait(), { exitCode: -1, error: 'signal: killed' })
  assert.equal(await sandbox.commands.kill(handle.pid), false)
})

test('what is not there', async () => {
  assert.equal(await sandbox.commands.kill(999_999), false)
  await assert.rejects(sandbox.commands.connect(999_999), NotFoundError)
  await assert.rejects(sandbox.commands.sendStdin(999_999, 'x'), NotFoundError)
})

test('a command without stdin', async () => {
  assert.equal((await run('cat | wc -c')).stdout, '0\n')
  const handle = await run('sleep 1000', { background: true, stdin: false })
  await assert.rejects(sandbox.commands.sendStdin(handle.pid, 'x'), SandboxError)
  await handle.kill()
})

test('many commands at once', async () => {
  const results = await Promise.all(
    Array.from({ length: 30 }, (_, i) => run(`sleep 0.2; echo ${i}`))
  )
  assert.deepEqual(
    results.map((result) => result.stdout),
    Array.from({ length: 30 }, (_, i) => `${i}\n`)
  )
})
