// files: what is written is what is read, and the tree looks as it should.

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { FileNotFoundError, FileType, InvalidArgumentError } from 'e2b'
import { makeSandbox } from './helpers.js'

const sandbox = await makeSandbox()
const files = sandbox.files

const bytesOf = (buffer) => new Uint8Array(buffer).buffer

test('text', async () => {
  const info = await files.write('/home/user/text/a.txt', 'text')
  assert.deepEqual(
    [info.name, info.path, info.type],
    ['a.txt', '/home/user/text/a.txt', FileType.FILE]
  )
  assert.equal(await files.read('/home/user/text/a.txt'), 'text')
  await files.write('/home/user/text/a.txt', 't')
  assert.equal(await files.read('/home/user/text/a.txt'), 't')
})

test('an empty file', async () => {
  await files.write('empty', '')
  assert.equal(await files.read('empty'), '')
  assert.equal((await files.getInfo('empty')).size, 0)
})

test('every byte value', async () => {
  const data = Buffer.from(Array.from({ length: 256 * 17 }, (_, i) => i % 256))
  await files.write('binary', bytesOf(data))
  assert.deepEqual(Buffer.from(await files.read('binary', { format: 'bytes' })), data)
})

test('fifty megabytes', async () => {
  const part = randomBytes(1 << 20)
  const data = Buffer.concat(Array.from({ length: 50 }, () => part))
  const digest = createHash('sha256').update(data).digest('hex')
  await files.write('big', bytesOf(data))
  assert.equal((await sandbox.commands.run('sha256sum < big')).stdout.split(' ')[0], digest)

  const read = createHash('sha256')
  for await (const chunk of await files.read('big', { format: 'stream' })) {
    read.update(chunk)
  }
  assert.equal(read.digest('hex'), digest)
})

for (const name of ['with space', '海湾.txt', '🐟', `quote'"$(x)`, 'a+b&c=d?e#f%20', '-rf']) {
  test(`the name ${name}`, async () => {
    const path = `/home/user/odd/${name}`
    await files.write(path, name)
    assert.equal(await files.read(path), name)
    assert.deepEqual((await files.list('/home/user/odd')).map((entry) => entry.name), [name])
    await files.remove(path)
    assert.equal(await files.exists(path), false)
  })
}

test('many files in one call', async () => {
  const entries = Array.from({ length: 20 }, (_, i) => ({
    path: `/home/user/many/${i}`,
    data: `file ${i}`,
  }))
  const infos = await files.write(entries)
  assert.deepEqual(infos.map((info) => info.path), entries.map((entry) => entry.path))
  for (const entry of entries) {
    assert.equal(await files.read(entry.path), entry.data)
  }
})

test('info', async () => {
  await files.write('/home/user/info', '12345')
  const info = await files.getInfo('/home/user/info')
  assert.deepEqual(
    [info.name, info.type, info.size, info.mode, info.permissions, info.owner, info.group],
    ['info', FileType.FILE, 5, 0o644, '-rw-r--r--', 'user', 'user']
  )
})

test('list', async () => {
  for (const path of ['b/inner/leaf', 'a', 'c']) {
    await files.write(`/home/user/tree/${path}`, 'x')
  }
  const names = async (depth) =>
    (await files.list('/home/user/tree', { depth })).map((e) => e.path.slice(16))
  assert.deepEqual(await names(1), ['a', 'b', 'c'])
  assert.deepEqual(await names(3), ['a', 'b', 'b/inner', 'b/inner/leaf', 'c'])
})

test('directories, renames and removal', async () => {
  assert.equal(await files.makeDir('/home/user/d/e'), true)
  assert.equal(await files.makeDir('/home/user/d/e'), false)
  await files.write('/home/user/d/old', 'x')
  const moved = await files.rename('/home/user/d/old', '/home/user/d/e/new')
  assert.equal(moved.path, '/home/user/d/e/new')
  assert.equal(await files.exists('/home/user/d/old'), false)
  assert.equal(await files.read('/home/user/d/e/new'), 'x')
  await files.remove('/home/user/d')
  assert.equal(await files.exists('/home/user/d'), false)
})

test('what is not there', async () => {
  assert.equal(await files.exists('missing'), false)
  await files.remove('missing')
  await assert.rejects(files.read('missing'), FileNotFoundError)
  await assert.rejects(files.getInfo('missing'), FileNotFoundError)
  await assert.rejects(files.list('missing'), FileNotFoundError)
  await assert.rejects(files.rename('missing', 'other'), FileNotFoundError)
})

test('a directory is not a file', async () => {
  await assert.rejects(files.read('/tmp'), InvalidArgumentError)
  await assert.rejects(files.list('/etc/hostname'), InvalidArgumentError)
  await assert.rejects(files.makeDir('/etc/hostname'), InvalidArgumentError)
})
