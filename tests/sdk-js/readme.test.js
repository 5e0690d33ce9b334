// What the README shows a new user.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Sandbox } from 'e2b'

test('the six lines', async () => {
  const sandbox = await Sandbox.create()
  try {
    const name = (await sandbox.commands.run('hostname')).stdout
    const hello = await sandbox.commands.run('echo hello from $(hostname)')
    assert.equal(hello.stdout, `hello from ${name}`)
    await sandbox.files.write('/home/user/note.txt', 'kept')
    assert.equal(await sandbox.files.read('/home/user/note.txt'), 'kept')
  } finally {
    assert.equal(await sandbox.kill(), true)
  }
})
