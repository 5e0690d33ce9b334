import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeSandbox, until } from './helpers.js'

test('metrics of a sandbox', async () => {
  const sandbox = await makeSandbox()
  let metrics = []
  await until(async () => (metrics = await sandbox.getMetrics()).length > 0, 'there is a sample')
  const [metric] = metrics
  for (const name of ['cpuCount', 'cpuUsedPct', 'memUsed', 'memTotal', 'diskUsed', 'diskTotal']) {
    assert.equal(typeof metric[name], 'number', name)
  }
  assert.ok(metric.memUsed > 0 && metric.memUsed < metric.memTotal)
  assert.ok(metric.timestamp instanceof Date)
})

test('metrics of another time', async () => {
  const sandbox = await makeSandbox()
  await until(async () => (await sandbox.getMetrics()).length > 0, 'there is a sample')
  const hour = 3_600_000
  const metrics = await sandbox.getMetrics({
    start: new Date(Date.now() - 2 * hour),
    end: new Date(Date.now() - hour),
  })
  assert.deepEqual(metrics, [])
})
