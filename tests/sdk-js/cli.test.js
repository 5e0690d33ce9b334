// The official command line tool, run as its users run it: a project with a Dockerfile becomes a
// template, and sandboxes are made, listed, used and ended from a shell.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Sandbox } from 'e2b'

const CLI = fileURLToPath(new URL('node_modules/@e2b/cli/dist/index.js', import.meta.url))
const DOCKERFILE = `FROM debian:13
WORKDIR /app
COPY note.txt /app/note.txt
ENV STAGE=test
RUN echo $STAGE >> note.txt
`

// A project of its own, which is the tool's home too: it finds no login and no settings.
const project = fs.mkdtempSync(path.join(os.tmpdir(), 'atoll-cli-'))
fs.writeFileSync(path.join(project, 'e2b.Dockerfile'), DOCKERFILE)
fs.writeFileSync(path.join(project, 'note.txt'), 'copied\n')
after(() => fs.rmSync(project, { recursive: true }))

const fresh = () => `cli-${randomUUID().slice(0, 12)}`

// Resolves with { code, stdout, stderr }, whatever the tool's end is.
function e2b(...args) {
  const options = { cwd: project, env: { ...process.env, HOME: project, NO_COLOR: '1' } }
  return new Promise((resolve) => {
    const done = (error, stdout, stderr) =>
      resolve({ code: error ? error.code : 0, stdout, stderr })
    execFile(process.execPath, [CLI, ...args], options, done).stdin.end()
  })
}

async function succeed(...args) {
  const { code, stdout, stderr } = await e2b(...args)
  assert.equal(code, 0, `e2b ${args.join(' ')}: ${stderr}${stdout}`)
  return stdout
}

// What `list --format json` prints after whatever the tool says before it.
async function listed(what, ...args) {
  const out = await succeed(what, 'list', '--format', 'json', ...args)
  return JSON.parse(out.slice(out.indexOf('[')))
}

async function templateNames() {
  return (await listed('template')).flatMap((template) => template.aliases)
}

async function stateOf(id, states = 'running,paused') {
  const sandboxes = await listed('sandbox', '--state', states)
  return sandboxes.find((sandbox) => sandbox.sandboxId === id)?.state
}

async function detached(template) {
  const id = (await succeed('sandbox', 'create', template, '--detach')).trim()
  after(() => Sandbox.kill(id))
  return id
}

test('a project becomes a template that sandboxes start from, until it is deleted', async () => {
  const name = fresh()
  const log = await succeed('template', 'create', name, '-d', 'e2b.Dockerfile')
  assert.match(log, /RUN echo \$STAGE >> note\.txt/)
  assert.ok((await templateNames()).includes(name))

  const id = await detached(name)
  assert.equal(await succeed('sandbox', 'exec', id, '--', 'cat', '/app/note.txt'), 'copied\ntest\n')
  await succeed('sandbox', 'kill', id)

  await succeed('template', 'delete', name, '-y')
  assert.ok(!(await templateNames()).includes(name))
  const gone = await e2b('sandbox', 'create', name, '--detach')
  assert.notEqual(gone.code, 0)
  assert.match(gone.stdout + gone.stderr, new RegExp(name))
})

test('a template that does not build fails the command', async () => {
  fs.writeFileSync(path.join(project, 'bad.Dockerfile'), 'FROM debian:13\nRUN exit 5\n')
  const { code, stdout, stderr } = await e2b('template', 'create', fresh(), '-d', 'bad.Dockerfile')
  assert.notEqual(code, 0)
  assert.match(stdout + stderr, /exit status 5/)
})

// The tool itself ends here, whatever the server: building by `docker push` is gone from it.
test('template build of the tool says that it is over, and asks nothing', async () => {
  const { code, stdout } = await e2b('template', 'build')
  assert.equal(code, 1)
  assert.match(stdout, /v1 build system which is now deprecated/)
})

test('a Dockerfile of several stages is refused by the tool', async () => {
  fs.writeFileSync(path.join(project, 'stages.Dockerfile'), 'FROM debian:13 AS a\nFROM debian:13\nCOPY --from=a /x /y\n')
  const { code, stdout, stderr } = await e2b('template', 'create', fresh(), '-d', 'stages.Dockerfile')
  assert.notEqual(code, 0)
  assert.match(stdout + stderr, /Multi-stage Dockerfiles are not supported/)
})

test('a sandbox is listed, used and killed', async () => {
  const id = await detached('base')
  assert.equal(await stateOf(id), 'running')
  assert.equal(await succeed('sandbox', 'exec', id, '--', 'echo', 'said'), 'said\n')
  assert.equal((await e2b('sandbox', 'exec', id, '--', 'sh', '-c', 'exit 3')).code, 3)
  assert.match(await succeed('sandbox', 'logs', id), /echo said/)
  assert.match(await succeed('sandbox', 'metrics', id), /CPU:/)
  await succeed('sandbox', 'kill', id)
  assert.equal(await stateOf(id), undefined)
})

test('a sandbox is paused and resumed', async () => {
  const id = await detached('base')
  await succeed('sandbox', 'pause', id)
  assert.equal(await stateOf(id, 'paused'), 'paused')
  await succeed('sandbox', 'resume', id)
  assert.equal(await stateOf(id, 'running'), 'running')
})

test('a snapshot is what other sandboxes start from, until it is deleted', async () => {
  const name = fresh()
  const first = await detached('base')
  await succeed('sandbox', 'exec', first, '--', 'sh', '-c', 'echo kept > /home/user/note')
  await succeed('sandbox', 'snapshot', 'create', first, '--name', name)
  const second = await detached(name)
  assert.equal(await succeed('sandbox', 'exec', second, '--', 'cat', '/home/user/note'), 'kept\n')
  await succeed('sandbox', 'snapshot', 'delete', name)
  assert.doesNotMatch(await succeed('sandbox', 'snapshot', 'list'), new RegExp(name))
})
