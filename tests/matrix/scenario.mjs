// One scenario for any JavaScript SDK from 1.5 on; scenario.py has the same in Python. It is copied
// beside the node_modules that it is to use.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import assert from 'node:assert/strict'
import * as e2b from 'e2b'
import * as interpreter from '@e2b/code-interpreter'
import { Absent, knowsUrls, step, tell } from './steps.mjs'

const { Sandbox } = e2b
const NAME = process.env.MATRIX_NAME
const TIMEOUT_MS = 120_000
const WAIT_MS = 60_000
const MAJOR = Number(process.env.MATRIX_SDK.split('.')[0])

const id = (sandbox) => sandbox.sandboxId.split('-')[0]

async function commands(sandbox) {
  const result = await sandbox.commands.run('echo out; echo err >&2; echo $NAME', { envs: { NAME: 'named' } })
  assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['out\nnamed\n', 'err\n', 0])
  await assert.rejects(sandbox.commands.run('exit 3'), (error) => error.exitCode === 3)
  const handle = await sandbox.commands.run('read line; echo got $line', { background: true, stdin: true })
  await sandbox.commands.sendStdin(handle.pid, 'typed\n')
  assert.equal((await handle.wait()).stdout, 'got typed\n')
}

async function files(sandbox) {
  const path = '/home/user/dir/note.txt'
  await sandbox.files.write(path, 'kept \u00e9\n')
  assert.equal(await sandbox.files.read(path), 'kept \u00e9\n')
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
  await sandbox.files.write('/home/user/dir/bytes', bytes.buffer)
  assert.deepEqual(new Uint8Array(await sandbox.files.read('/home/user/dir/bytes', { format: 'bytes' })), bytes)
  await sandbox.commands.run('ln -s note.txt /home/user/dir/link')
  const names = (await sandbox.files.list('/home/user/dir')).map((entry) => entry.name)
  assert.deepEqual(names.sort(), ['bytes', 'link', 'note.txt'])
  await sandbox.files.rename(path, '/home/user/dir/moved.txt')
  assert.ok(await sandbox.files.exists('/home/user/dir/moved.txt'))
  assert.ok(!(await sandbox.files.exists(path)))
  await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error('the watch saw no new file')), WAIT_MS).unref()
    const seen = (event) => event.name === 'new.txt' && resolve()
    sandbox.files.watchDir('/home/user/dir', seen)
      .then(() => sandbox.files.write('/home/user/dir/new.txt', 'new')).catch(reject)
  })
  await sandbox.files.remove('/home/user/dir')
  assert.ok(!(await sandbox.files.exists('/home/user/dir')))
}

async function pty(sandbox) {
  let seen = ''
  const onData = (data) => { seen += new TextDecoder().decode(data) }
  const terminal = await sandbox.pty.create({ cols: 100, rows: 24, onData })
  await sandbox.pty.resize(terminal.pid, { cols: 120, rows: 30 })
  await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('echo $((40 + 2)) $(tput cols)\nexit\n'))
  const result = await terminal.wait()
  assert.ok(seen.includes('42 120'), seen)
  assert.equal(result.exitCode, 0)
}

async function info(sandbox) {
  if (sandbox.getInfo) {
    assert.equal(id(await sandbox.getInfo()), id(sandbox))
  }
  const listed = await Sandbox.list()
  const rows = listed.nextItems ? await listed.nextItems() : listed
  assert.ok(rows.some((row) => id(row) === id(sandbox)))
}

async function pause(sandbox) {
  if (!sandbox.pause && !sandbox.betaPause) {
    throw new Absent()
  }
  await (sandbox.pause ? sandbox.pause() : sandbox.betaPause())
}

async function connect(sandbox) {
  const again = await Sandbox.connect(sandbox.sandboxId)
  const result = await again.commands.run('cat /tmp/state; kill -0 $(cat /tmp/pid) && echo alive')
  assert.equal(result.stdout, '41\nalive\n')
  assert.ok(await again.isRunning())
}

async function runCode(options = {}) {
  if (!(await knowsUrls('@e2b/code-interpreter', ['sandboxUrl', 'getSandboxDirectUrl', 'getSandboxUrl']))) {
    throw new Absent()
  }
  const sandbox = await interpreter.Sandbox.create({ timeoutMs: TIMEOUT_MS, ...options })
  try {
    await sandbox.runCode('x = 41')
    const execution = await sandbox.runCode("print('printed'); x + 1")
    assert.equal(execution.text, '42')
    assert.equal(execution.logs.stdout.join(''), 'printed\n')
    assert.equal((await sandbox.runCode('1 / 0')).error.name, 'ZeroDivisionError')
  } finally {
    await sandbox.kill()
  }
}

// Explicit `secure`: the interpreters before 2.0 send no token with runCode.
async function runCodeSecure() {
  if (MAJOR >= 2) {
    throw new Absent()
  }
  await runCode({ secure: true })
}

async function build() {
  if (!e2b.Template) {
    throw new Absent()
  }
  const context = await mkdtemp(join(tmpdir(), 'matrix-'))
  try {
    await writeFile(join(context, 'copied.txt'), NAME)
    const template = e2b.Template({ fileContextPath: context }).fromBaseImage()
      .copy('copied.txt', '/srv/').runCmd('cat /srv/copied.txt > /tmp/built')
    await e2b.Template.build(template, { alias: NAME, cpuCount: 1, memoryMB: 512 })
  } finally {
    await rm(context, { recursive: true })
  }
  const sandbox = await Sandbox.create(NAME, { timeoutMs: TIMEOUT_MS })
  try {
    assert.equal(await sandbox.files.read('/tmp/built'), NAME)
  } finally {
    await sandbox.kill()
  }
}

async function inOneSandbox() {
  const options = { timeoutMs: TIMEOUT_MS, envs: { MADE: 'yes' }, metadata: { matrix: NAME } }
  const sandbox = await step('create', () => Sandbox.create('base', options))
  if (!sandbox) {
    return
  }
  try {
    await step('command', commands, sandbox)
    await step('files', files, sandbox)
    await step('pty', pty, sandbox)
    await step('info', info, sandbox)
    await sandbox.commands.run('echo 41 > /tmp/state; nohup sleep 600 >/dev/null 2>&1 & echo $! > /tmp/pid')
    await step('pause', pause, sandbox)
    await step('connect', connect, sandbox)
  } finally {
    await sandbox.kill()
  }
}

if (!(await knowsUrls('e2b', ['E2B_SANDBOX_URL']))) {
  tell('create', 'absent')
} else {
  await inOneSandbox()
  await step('run_code', runCode)
  await step('secure', runCodeSecure)
  await step('build', build)
}
process.exit(0) // some versions keep connections open
