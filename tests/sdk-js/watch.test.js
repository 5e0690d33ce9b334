// watches: what happens in a directory is told, in its order, once.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FileNotFoundError, InvalidArgumentError, TimeoutError } from 'e2b'
import { makeSandbox, until } from './helpers.js'

const sandbox = await makeSandbox()
const files = sandbox.files

// A watch on a new directory. Events are lines: `create a`. `ended` is set with the error, or null.
async function watch(directory, options = {}) {
  await files.makeDir(directory)
  const seen = { lines: [], entries: [], ended: undefined }
  const handle = await files.watchDir(
    directory,
    (event) => {
      seen.lines.push(`${event.type} ${event.name}`)
      seen.entries.push(event.entry)
    },
    { timeoutMs: 0, onExit: (error) => { seen.ended = error ?? null }, ...options }
  )
  seen.stop = () => handle.stop()
  seen.has = (line) => until(() => seen.lines.includes(line), `${line} in ${seen.lines}`)
  return seen
}

test('a write is a creation, a change of owner and a write', async () => {
  const seen = await watch('/home/user/write')
  await files.write('/home/user/write/a', 'text')
  await seen.has('write a')
  assert.deepEqual(seen.lines, ['create a', 'chmod a', 'write a'])
  await files.write('/home/user/write/a', 'other')
  await files.makeDir('/home/user/write/end')
  await seen.has('create end')
  assert.deepEqual(seen.lines.slice(3, 5), ['chmod a', 'write a'])
  await seen.stop()
})

test('what commands do', async () => {
  const seen = await watch('/home/user/commands')
  await sandbox.commands.run('cd commands && touch a && mv a b && chmod 600 b && rm b && mkdir end')
  await seen.has('create end')
  const told = seen.lines.filter((line) => !['chmod a', 'chmod end'].includes(line))
  assert.deepEqual(told, ['create a', 'rename a', 'create b', 'chmod b', 'remove b', 'create end'])
  await seen.stop()
})

test('new directories are followed, and each file is told of once', async () => {
  const seen = await watch('/home/user/tree', { recursive: true })
  await sandbox.commands.run(
    'cd tree && for i in $(seq 50); do mkdir -p $i/a/b && echo x > $i/f && echo x > $i/a/b/g; done; touch end'
  )
  await seen.has('create end')
  const files = Array.from({ length: 50 }, (_, i) => [`create ${i + 1}/f`, `create ${i + 1}/a/b/g`]).flat()
  for (const line of files) {
    await seen.has(line)
  }
  for (const line of files) {
    assert.equal(seen.lines.filter((other) => other === line).length, 1, line)
  }
  await seen.stop()
})

test('entries', async () => {
  const seen = await watch('/home/user/entries', { includeEntry: true })
  await files.write('/home/user/entries/a', 'text')
  await seen.has('write a')
  const entry = seen.entries[seen.lines.indexOf('write a')]
  assert.deepEqual([entry.name, entry.path, entry.size], ['a', '/home/user/entries/a', 4])
  await files.remove('/home/user/entries/a')
  await seen.has('remove a')
  assert.equal(seen.entries[seen.lines.indexOf('remove a')], undefined)
  await seen.stop()
})

test('a directory that goes ends its watch', async () => {
  const seen = await watch('/home/user/going')
  await files.remove('/home/user/going')
  await until(() => seen.ended !== undefined, 'the watch has ended')
  assert.equal(seen.ended, null)
  assert.deepEqual(seen.lines, ['remove .'])
})

test('a watch has a timeout', async () => {
  const seen = await watch('/home/user/timeout', { timeoutMs: 500 })
  await until(() => seen.ended !== undefined, 'the watch has ended')
  assert.ok(seen.ended instanceof TimeoutError, String(seen.ended))
})

test('what cannot be watched', async () => {
  await assert.rejects(files.watchDir('/home/user/missing', () => {}), FileNotFoundError)
  await files.write('/home/user/file', '')
  await assert.rejects(files.watchDir('/home/user/file', () => {}), InvalidArgumentError)
})

test('a hundred watches at once', async () => {
  const watches = await Promise.all(
    Array.from({ length: 100 }, (_, i) => watch(`/home/user/many/${i}`))
  )
  await sandbox.commands.run('for i in $(seq 0 99); do mkdir many/$i/d$i; done')
  await Promise.all(watches.map((seen, i) => seen.has(`create d${i}`)))
  assert.ok(watches.every((seen, i) => seen.lines.length === 1), 'each its own')
  await Promise.all(watches.map((seen) => seen.stop()))
})
