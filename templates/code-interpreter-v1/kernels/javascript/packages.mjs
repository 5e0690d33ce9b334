// Where the imports of a cell lead: to node_modules of the working directory and above it, as everywhere, and
// then to npm's global packages, which Node.js does not look through by itself.
import fs from 'node:fs'
import { isBuiltin } from 'node:module'
import path from 'node:path'

const BESIDE_GLOBAL = 'file:///usr/local/lib/cells.mjs' // whose imports would find them

// The package that a specifier names; null when it names a file, an address or a part of Node.js.
function packageOf(specifier) {
  if (/^[./#]|^\w[\w+.-]*:/.test(specifier) || isBuiltin(specifier)) return null
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
}

function isNear(name) {
  for (let at = process.cwd(); ; at = path.dirname(at)) {
    if (fs.existsSync(path.join(at, 'node_modules', name))) return true
    if (at === path.dirname(at)) return false
  }
}

// A global package as the address of its file; all else as it is.
export function locate(specifier) {
  try {
    const name = packageOf(specifier)
    return name && !isNear(name) ? import.meta.resolve(specifier, BESIDE_GLOBAL) : specifier
  } catch {
    return specifier
  }
}
