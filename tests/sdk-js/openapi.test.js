// The OpenAPI documents of the API and of the tools. That of the tools as builders take it: a validator reads it, and a client that is
// generated from it alone calls tools.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import SwaggerParser from '@apidevtools/swagger-parser'
import { OpenAPIClientAxios } from 'openapi-client-axios'
import { makeSandbox } from './helpers.js'

const URL = process.env.E2B_API_URL
const KEY = process.env.E2B_API_KEY

// No key: builders fetch the document before they are given one.
async function fetchDocument(headers = {}) {
  const response = await fetch(`${URL}/tools/openapi.json`, { headers })
  assert.equal(response.status, 200)
  return response.json()
}

async function generateClient(headers) {
  const api = new OpenAPIClientAxios({
    definition: await fetchDocument(),
    axiosConfigDefaults: { headers, validateStatus: () => true },
  })
  return api.getClient()
}

test('the document is valid OpenAPI 3.1', async () => {
  const document = await fetchDocument()
  assert.match(document.openapi, /^3\.1\./)
  await SwaggerParser.validate(structuredClone(document))
  assert.deepEqual(document.servers, [{ url: URL }])
})

test('the document of the whole API is valid OpenAPI 3.1', async () => {
  const response = await fetch(`${URL}/openapi.json`)
  assert.equal(response.status, 200)
  const document = await response.json()
  assert.match(document.openapi, /^3\.1\./)
  await SwaggerParser.validate(structuredClone(document))
})

test('behind a proxy the document names the address of the proxy', async () => {
  const document = await fetchDocument({ 'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'tools.example' })
  assert.deepEqual(document.servers, [{ url: 'https://tools.example' }])
})

test('every tool of the listing is an operation that importers take', async () => {
  const listed = await (await fetch(`${URL}/tools`, { headers: { 'X-API-Key': KEY } })).json()
  const document = await fetchDocument()
  const operations = Object.entries(document.paths).map(([path, item]) => [path, item.post])
  assert.deepEqual(
    operations.map(([path]) => path),
    [...listed.tools.map((tool) => `/tools/${tool.name}`), '/api/code/execute']
  )
  for (const [path, operation] of operations) {
    assert.equal(path, operation.operationId === 'execute_code' ? '/api/code/execute' : `/tools/${operation.operationId}`)
    assert.ok(operation.summary && operation.description)
    assert.ok(operation.description.length <= 300, `${path}: its description is too long for ChatGPT`)
    assert.equal(operation.requestBody.content['application/json'].schema.type, 'object')
  }
  assert.deepEqual(Object.values(document.components.securitySchemes).map((scheme) => scheme.type).sort(),
    ['apiKey', 'http'])
})

for (const headers of [{ 'X-API-Key': KEY }, { Authorization: `Bearer ${KEY}` }]) {
  test(`a generated client calls tools with ${Object.keys(headers)[0]}`, async () => {
    const sandbox = await makeSandbox({ metadata: { userId: 'openapi' } })
    const client = await generateClient(headers)
    const content = 'written by a generated client\n'
    const wrote = await client.write_sandbox_file(null, {
      sandbox_id: sandbox.sandboxId, path: 'deep/in/note.txt', content, mode: '640',
    })
    assert.equal(wrote.status, 200)
    assert.equal(wrote.data.mode, '640')
    const read = await client.read_sandbox_file(null, { sandbox_id: sandbox.sandboxId, path: 'deep' })
    assert.equal(read.data.files[0].content, content)
    const list = await client.list_sandboxes(null, { metadata: { userId: 'openapi' } })
    assert.ok(list.data.sandboxes.some((row) => row.sandbox_id === sandbox.sandboxId))
  })
}

test('a generated client is told what is wrong', async () => {
  const client = await generateClient({ 'X-API-Key': KEY })
  const answer = await client.read_sandbox_file(null, { sandbox_id: 'x', path: 5 })
  assert.equal(answer.status, 400)
  assert.deepEqual(answer.data, { code: 400, message: 'path: must be a string' })
})
