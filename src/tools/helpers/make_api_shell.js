// API shells for code in a sandbox: the code names a shell and a path, and holds no key.
//
//   const make = require('make_api_shell')          // or: import make from 'make_api_shell'
//   const unread = await make.call('gmail', '/users/me/messages', { query: { q: 'is:unread' } })

const SHELLS = 'http://shell.atoll.internal'

class ShellError extends Error {
  constructor(status, said) {
    super(`${status}: ${typeof said === 'string' ? said : JSON.stringify(said)}`)
    this.name = 'ShellError'
    this.status = status
    this.said = said
  }
}

function read(type, text) {
  if (!(type ?? '').includes('json')) return text
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

// An object, or the list of {key, value} that Make's modules take.
function headersOf(header) {
  if (!Array.isArray(header)) return { ...header }
  return Object.fromEntries(header.map((one) => [one.key ?? one.name, one.value]))
}

/** The API's answer: what JSON says, or a text. A ShellError for any other status than 2xx. */
async function call(shell, path = '/', { method = 'GET', header, body, query } = {}) {
  const headers = headersOf(header)
  const url = new URL(`${SHELLS}/${encodeURIComponent(shell)}/${path.replace(/^\/+/, '')}`)
  for (const [name, value] of Object.entries(query ?? {})) url.searchParams.append(name, value)
  let data = body ?? undefined
  if (data !== undefined && typeof data !== 'string' && !(data instanceof Uint8Array)) {
    data = JSON.stringify(data)
    headers['Content-Type'] ??= 'application/json'
  }
  const answer = await fetch(url, { method, headers, body: data, redirect: 'manual' })
  const said = read(answer.headers.get('content-type'), await answer.text())
  if (!answer.ok) throw new ShellError(answer.status, said?.message ?? said)
  return said
}

module.exports = { call, ShellError }
