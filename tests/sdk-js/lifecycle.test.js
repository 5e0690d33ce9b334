// A sandbox from create to kill: info, list, connect, timeouts, the end.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { AuthenticationError, NotFoundError, Sandbox, SandboxError, TimeoutError } from 'e2b'
import { makeSandbox, until } from './helpers.js'

async function listed(options) {
  const pages = []
  const paginator = Sandbox.list(options)
  while (paginator.hasNext) {
    pages.push((await paginator.nextItems()).map((info) => info.sandboxId))
  }
  return pages
}

test('what info says', async () => {
  const metadata = { purpose: 'info', 海: '🐟' }
  const sandbox = await makeSandbox({ timeoutMs: 120_000, metadata })
  const info = await sandbox.getInfo()
  assert.equal(info.sandboxId, sandbox.sandboxId)
  assert.equal(info.name, 'base')
  assert.equal(info.state, 'running')
  assert.deepEqual(info.metadata, metadata)
  assert.equal(Math.round((info.endAt - info.startedAt) / 1000), 120)
})

test('kill is true once', async () => {
  const sandbox = await makeSandbox()
  assert.equal(await sandbox.isRunning(), true)
  assert.equal(await sandbox.kill(), true)
  assert.equal(await sandbox.isRunning(), false)
  assert.equal(await sandbox.kill(), false)
  await assert.rejects(sandbox.getInfo(), NotFoundError)
  await assert.rejects(sandbox.setTimeout(60_000), NotFoundError)
  await assert.rejects(Sandbox.connect(sandbox.sandboxId), NotFoundError)
  await assert.rejects(sandbox.commands.run('true'), SandboxError)
})

test('kill tells a waiting command', async () => {
  const sandbox = await makeSandbox()
  const handle = await sandbox.commands.run('sleep 1000', { background: true })
  const failed = assert.rejects(handle.wait(), TimeoutError)
  await sandbox.kill()
  await failed
})

test('connect reaches the same sandbox and never shortens its life', async () => {
  const sandbox = await makeSandbox({ timeoutMs: 100_000 })
  await sandbox.files.write('note', 'left here')
  const end = (await sandbox.getInfo()).endAt
  const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 10_000 })
  assert.equal(await again.files.read('note'), 'left here')
  assert.deepEqual((await again.getInfo()).endAt, end)
  await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 200_000 })
  assert.ok((await again.getInfo()).endAt > end)
})

test('a timeout ends the sandbox', async () => {
  const sandbox = await makeSandbox({ timeoutMs: 2000 })
  await until(async () => !(await sandbox.isRunning()), 'the sandbox has timed out')
  await assert.rejects(sandbox.getInfo(), NotFoundError)
})

test('a shortened timeout ends the sandbox', async () => {
  const sandbox = await makeSandbox()
  await sandbox.setTimeout(1000)
  await until(async () => !(await sandbox.isRunning()), 'the sandbox has timed out')
})

test('lists: filter, order, pages', async () => {
  const metadata = { tag: randomUUID(), 'odd & key=': 'a/b?c dé' }
  const made = []
  for (let i = 0; i < 3; i++) {
    made.push((await makeSandbox({ metadata })).sandboxId)
  }
  const newest = made.toReversed()
  const query = { metadata }
  assert.deepEqual(await listed({ query }), [newest])
  assert.deepEqual((await listed({ query, limit: 1 })).flat(), newest)
  assert.deepEqual((await listed({ query, limit: 2 })).flat(), newest)
  assert.deepEqual(await listed({ query: { metadata: { tag: 'another' } } }), [[]])
  assert.deepEqual(await listed({ query: { metadata, state: ['paused'] } }), [[]])
})

test('bad input', async () => {
  await assert.rejects(Sandbox.create('no-such-template'), /no-such-template/)
  await assert.rejects(Sandbox.create({ timeoutMs: 10 ** 10 }), /[Tt]imeout/)
  await assert.rejects(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }), AuthenticationError)
})

test('many sandboxes at once', async () => {
  const all = await Promise.all(Array.from({ length: 10 }, () => makeSandbox()))
  const names = await Promise.all(
    all.map(async (sandbox) => (await sandbox.commands.run('echo $E2B_SANDBOX_ID')).stdout.trim())
  )
  assert.deepEqual(names, all.map((sandbox) => sandbox.sandboxId))
  assert.deepEqual(await Promise.all(all.map((sandbox) => sandbox.kill())), Array(10).fill(true))
})
