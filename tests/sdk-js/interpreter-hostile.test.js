// Code that does what it should not, with the official package for JavaScript.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Sandbox } from '@e2b/code-interpreter'

const sandbox = await Sandbox.create({ timeoutMs: 300_000 })
after(() => sandbox.kill())

async function lives(language = 'python') {
  const code = { python: 'print(6 * 7)', javascript: 'console.log(6 * 7)', bash: 'echo 42' }
  const execution = await sandbox.runCode(code[language], { language })
  assert.equal(execution.logs.stdout.join(''), '42\n')
}

test('an endless loop ends with its client', async () => {
  for (const [language, code] of Object.entries({
    python: 'while True: pass',
    javascript: 'while (true) {}',
    bash: 'while true; do :; done',
  })) {
    await assert.rejects(sandbox.runCode(code, { language, timeoutMs: 2_000 }), /timed? ?out/i)
    await lives(language)
  }
})

test('what cannot be asked is refused in a sentence', async () => {
  const [context] = await sandbox.listCodeContexts()
  await assert.rejects(sandbox.runCode('1', { context, language: 'python' }), /context|language/)
  await assert.rejects(sandbox.runCode('1', { language: 'klingon' }), /400/)
  await assert.rejects(sandbox.createCodeContext({ language: 'klingon' }), /400/)
})

test('a kernel that dies is reported and replaced', async () => {
  const { error } = await sandbox.runCode('import os, signal\nos.kill(os.getpid(), signal.SIGKILL)')
  assert.ok(error.value)
  await lives()
  const exited = await sandbox.runCode('process.exit(3)', { language: 'javascript' })
  assert.ok(exited.error)
  await lives('javascript')
})

test('a flood comes whole', async () => {
  let total = 0
  await sandbox.runCode("for i in range(20_000): print('x' * 99)", {
    onStdout: (message) => void (total += message.line.length),
  })
  assert.equal(total, 2_000_000)
  await lives()
})

test('nobody answers input()', async () => {
  const { error } = await sandbox.runCode("input('who? ')")
  assert.equal(error.name, 'StdinNotImplementedError')
  await lives()
})
