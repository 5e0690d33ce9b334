// What scripts that run with a published package tell tests/published.py: a line of JSON for each step
// on standard output. It is copied beside the node_modules that it is to use.

import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'

export class Absent extends Error {} // this package has no such call

export function tell(step, result, why = '') {
  console.log(JSON.stringify({ step, result, why }))
}

export async function step(name, call, ...args) {
  try {
    const result = await call(...args)
    tell(name, 'ok')
    return result
  } catch (error) {
    if (error instanceof Absent) {
      tell(name, 'absent')
      return
    }
    console.error(error)
    tell(name, 'failed', `${error.name}: ${error.message}`.split('\n')[0].slice(0, 300))
  }
}

// By URL, only if the package knows of it.
export async function knowsUrls(name, words) {
  const source = await readFile(createRequire(import.meta.url).resolve(name), 'utf8')
  return !process.env.E2B_SANDBOX_URL || words.some((word) => source.includes(word))
}

// Runs a script of one client, and tells that it came to its end.
export async function run(main) {
  const urls = await knowsUrls('e2b', ['E2B_SANDBOX_URL'])
  if (urls) {
    await main()
  }
  tell('end', urls ? 'ok' : 'absent')
  process.exit(0) // some packages keep connections open
}
