// Servers on 127.0.0.1 inside a sandbox, reached through the edge with fetch and WebSocket.

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { WebSocket } from 'undici'
import { edgeFetch, makeSandbox, routing, SANDBOX_URL, serve } from './helpers.js'

const WEB = 8080
const SOCKET = 8081

const sandbox = await makeSandbox()
await serve(sandbox, 'web_server.py', WEB)
await serve(sandbox, 'websocket_server.py', SOCKET)

function openSocket(target) {
  const headers = routing(target.sandboxId, SOCKET)
  const socket = new WebSocket(SANDBOX_URL.replace('http', 'ws') + '/socket', { headers })
  socket.binaryType = 'arraybuffer'
  return new Promise((resolve, reject) => {
    socket.onopen = () => resolve(socket)
    socket.onerror = (event) => reject(event.error ?? new Error('the socket did not open'))
  })
}

function nextMessage(socket) {
  return new Promise((resolve, reject) => {
    socket.onmessage = (event) => resolve(event.data)
    socket.onclose = (event) => reject(new Error(`closed with ${event.code}`))
  })
}

test('a request', async () => {
  const answer = await edgeFetch(sandbox, WEB, '/hello')
  assert.equal(answer.status, 200)
  assert.equal(await answer.text(), 'hello from inside')
})

test('a large body', async () => {
  const body = randomBytes(10_000_000)
  const answer = await edgeFetch(sandbox, WEB, '/digest', { method: 'POST', body })
  const sha256 = createHash('sha256').update(body).digest('hex')
  assert.deepEqual(await answer.json(), { length: body.length, sha256 })
})

test('a stream is not held back', async () => {
  const answer = await edgeFetch(sandbox, WEB, '/events')
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
  for (const number of [0, 1, 2]) {
    assert.equal((await reader.read()).value, `data: ${number}\n\n`)
    await edgeFetch(sandbox, WEB, number < 2 ? '/next' : '/end')
  }
  assert.equal((await reader.read()).done, true)
})

test('a closed port', async () => {
  const answer = await edgeFetch(sandbox, 9, '/')
  assert.equal(answer.status, 502)
  assert.deepEqual(await answer.json(), {
    sandboxId: sandbox.sandboxId,
    message: 'The sandbox is running but port is not open',
    port: 9,
    code: 502,
  })
})

test('an unknown sandbox', async () => {
  const nobody = { sandboxId: 'i' + '0'.repeat(20) }
  const answer = await edgeFetch(nobody, WEB, '/')
  assert.equal(answer.status, 502)
  assert.equal((await answer.json()).message, 'The sandbox was not found')
})

test('WebSocket messages come back', async () => {
  const socket = await openSocket(sandbox)
  socket.send('text')
  assert.equal(await nextMessage(socket), 'text')
  const bytes = randomBytes(1_000_000)
  socket.send(bytes)
  assert.deepEqual(Buffer.from(await nextMessage(socket)), bytes)
  socket.close()
})

test('kill resets what is open', async () => {
  const doomed = await makeSandbox()
  await serve(doomed, 'web_server.py', WEB)
  await serve(doomed, 'websocket_server.py', SOCKET)
  const socket = await openSocket(doomed)
  const closed = assert.rejects(nextMessage(socket), /closed with 1006/)
  const reader = (await edgeFetch(doomed, WEB, '/events')).body.getReader()
  await reader.read()
  const broken = assert.rejects(reader.read(), TypeError)
  await doomed.kill()
  await Promise.all([closed, broken])
})
