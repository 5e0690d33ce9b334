// Templates built with the official SDK: what a builder says is what the next sandbox has.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { Sandbox, Template, waitForPort } from 'e2b'

const fresh = () => `t-${randomUUID().slice(0, 12)}`

async function build(template, name, options = {}) {
  const lines = []
  const info = await Template.build(template, name, {
    onBuildLogs: (entry) => lines.push(entry.message),
    ...options,
  })
  return { info, lines }
}

test("a builder's steps are in the sandbox", async () => {
  const context = fs.mkdtempSync(path.join(os.tmpdir(), 'atoll-js-'))
  fs.mkdirSync(path.join(context, 'src'))
  fs.writeFileSync(path.join(context, 'src', 'a.txt'), 'copied\n')
  const name = fresh()
  try {
    const template = Template({ fileContextPath: context })
      .fromBaseImage()
      .setEnvs({ STAGE: 'test' })
      .setWorkdir('/app')
      .copy('src/*', 'in/')
      .runCmd('cat in/a.txt > out && echo $STAGE >> out')
    await build(template, name)
    const sandbox = await Sandbox.create(name)
    assert.equal(await sandbox.files.read('/app/out'), 'copied\ntest\n')
    await sandbox.kill()
  } finally {
    fs.rmSync(context, { recursive: true })
  }
})

test('a service is up when the sandbox is', async () => {
  const name = fresh()
  await build(
    Template().fromTemplate('base').setStartCmd('python3 -m http.server 8766', waitForPort(8766)),
    name
  )
  const sandbox = await Sandbox.create(name)
  const answer = await sandbox.commands.run('curl -sf localhost:8766')
  assert.match(answer.stdout, /Directory listing/)
  await sandbox.kill()
})

test('a failure tells what failed', async () => {
  await assert.rejects(build(Template().fromBaseImage().runCmd('exit 5'), fresh()), /exit status 5/)
})

test('a second build is cached, and tags name builds', async () => {
  const name = fresh()
  const template = Template().fromBaseImage().runCmd(`echo ${name} > /tmp/v`)
  await build(template, `${name}:v1`)
  const { lines } = await build(template, `${name}:v2`)
  assert.ok(lines.some((line) => line.startsWith('CACHED [builder 1/1] RUN')))
  await Template.assignTags(`${name}:v1`, 'stable')
  const tags = await Template.getTags(name)
  assert.deepEqual(tags.map((t) => t.tag).sort(), ['stable', 'v1', 'v2'])
  await Template.removeTags(name, 'stable')
  assert.equal(await Template.exists(name), true)
  assert.equal(await Template.exists(`${name}x`), false)
})
