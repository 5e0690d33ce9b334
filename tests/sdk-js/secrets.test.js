// Secrets, and what the SDK makes of rules that name them.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { Sandbox, Secret, SecretNotFoundError } from 'e2b'
import { makeSandbox } from './helpers.js'

function freshName() {
  const name = `js-${randomUUID()}`
  after(() => Secret.destroy(name))
  return name
}

test('a secret is made, found, changed and destroyed', async () => {
  const name = freshName()
  const made = await Secret.create(name.toUpperCase(), 'value', { metadata: { a: 'b' } })
  assert.equal(made.name, name)
  assert.equal(made.version, 1)
  assert.deepEqual(made.metadata, { a: 'b' })
  assert.equal((await Secret.getInfo(made.secretId)).name, name)
  const changed = await Secret.update(name, 'other')
  assert.equal(changed.version, 2)
  assert.deepEqual(changed.metadata, { a: 'b' })
  assert.equal(await Secret.destroy(name), true)
  assert.equal(await Secret.destroy(name), false)
  await assert.rejects(Secret.getInfo(name), SecretNotFoundError)
})

test('lists come page by page', async () => {
  const names = [freshName(), freshName(), freshName()]
  for (const name of names) await Secret.create(name, 'v')
  const found = []
  const paginator = Secret.list({ limit: 1 })
  while (paginator.hasNext) found.push(...(await paginator.nextItems()).map((secret) => secret.name))
  assert.deepEqual(found.filter((name) => names.includes(name)), names)
})

test('a rule that names a secret is stored as it was sent', async () => {
  const name = freshName()
  await Secret.create(name, 'never shown')
  const authorization = `Bearer ${Secret.fill(name)}`
  const sandbox = await makeSandbox({
    network: { rules: { 'api.example.com': [{ transform: { headers: { authorization } } }] } },
  })
  const info = await sandbox.getInfo()
  assert.equal(
    info.network.rules['api.example.com'][0].transform.headers.authorization,
    authorization
  )
  const trusted = await sandbox.commands.run('echo $NODE_EXTRA_CA_CERTS; cat $NODE_EXTRA_CA_CERTS')
  assert.match(trusted.stdout, /BEGIN CERTIFICATE/)
})

test('workload tokens are taken', async () => {
  const sandbox = await makeSandbox({
    iam: { tokens: { aws: Secret.iamToken({ audience: 'sts.example.com', tokenType: 'JWT-SVID' }) } },
    network: {
      rules: {
        'api.example.com': [
          { transform: ({ iam }) => ({ headers: { authorization: `Bearer ${iam.tokens.aws}` } }) },
        ],
      },
    },
  })
  assert.equal(await sandbox.isRunning(), true)
})
