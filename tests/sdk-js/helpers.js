// Sandboxes that are always killed, and plain HTTP to their ports through the edge.

import { readFile } from 'node:fs/promises'
import { after } from 'node:test'
import { Sandbox } from 'e2b'

export const SANDBOX_URL = process.env.E2B_SANDBOX_URL
const TIMEOUT_MS = 300_000
const STARTUP_MS = 30_000

// Killed when the test that made it ends; made at the top of a file, when the file's tests have.
export async function makeSandbox(options = {}) {
  const sandbox = await Sandbox.create({ timeoutMs: TIMEOUT_MS, ...options })
  after(() => sandbox.kill())
  return sandbox
}

// The headers by which the edge finds a port of a sandbox.
export function routing(sandboxId, port) {
  return { 'E2b-Sandbox-Id': sandboxId, 'E2b-Sandbox-Port': String(port) }
}

export function edgeFetch(sandbox, port, path, options = {}) {
  const headers = { ...routing(sandbox.sandboxId, port), ...options.headers }
  return fetch(SANDBOX_URL + path, { ...options, headers })
}

export function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

// Polls until check() is true; fails when that takes too long.
export async function until(check, what, limitMs = STARTUP_MS) {
  const deadline = Date.now() + limitMs
  while (!(await check())) {
    if (Date.now() > deadline) {
      throw new Error(`still not so after ${limitMs} ms: ${what}`)
    }
    await sleep(100)
  }
}

// Runs one of the servers that the Python tests use too, on 127.0.0.1:<port> in the sandbox.
export async function serve(sandbox, script, port) {
  const source = await readFile(new URL(`../sdk-py/inside/${script}`, import.meta.url), 'utf8')
  await sandbox.files.write(`/tmp/${script}`, source)
  await sandbox.commands.run(`exec python3 /tmp/${script} ${port}`, { background: true, timeoutMs: 0 })
  const probe = `python3 -c "import socket; socket.create_connection(('127.0.0.1', ${port}))" 2>/dev/null`
  await until(
    async () => (await sandbox.commands.run(`${probe}; echo $?`)).stdout === '0\n',
    `${script} listens on ${port}`
  )
}
