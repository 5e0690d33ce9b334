'use strict'
// The kernel of JavaScript and TypeScript: Node's own REPL evaluates cells. Commands come on descriptor
// 3, events go to descriptor 4; what a cell prints goes to descriptors 1 and 2 as it is.
const fs = require('node:fs')
const Module = require('node:module')
const net = require('node:net')
const readline = require('node:readline')
const repl = require('node:repl')
const { PassThrough, Writable } = require('node:stream')
const util = require('node:util')
const { prepare } = require('./cell.cjs')

const typescript = process.argv[2] === 'typescript'
const packages = import('./packages.mjs')
const globalPackages = '/usr/local/lib/node_modules'
const displaySymbol = Symbol.for('Jupyter.display')
delete process.env.ATOLL_KEPT // says how the first kernels are started, and is nothing to cells

function writeAll(fd, bytes) {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += fs.writeSync(fd, bytes, at)
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1) // somebody made it non-blocking
    }
  }
}

function emit(event) {
  writeAll(4, Buffer.from(JSON.stringify(event) + '\n'))
}

// Node's own streams for pipes gather what the pipe has no room for, without bound, and lose it when
// the process ends. These wait. They keep no state that an interrupt in the middle could leave behind.
class Output extends Writable {
  constructor(fd) {
    super()
    this.fd = fd
  }

  write(chunk, encoding, done) {
    const callback = typeof encoding === 'function' ? encoding : done
    const known = typeof encoding === 'string' ? encoding : 'utf8'
    writeAll(this.fd, typeof chunk === 'string' ? Buffer.from(chunk, known) : chunk)
    if (callback) process.nextTick(callback)
    return true
  }
}
for (const [name, fd] of [['stdout', 1], ['stderr', 2]]) {
  const stream = new Output(fd)
  Object.defineProperty(process, name, { configurable: true, enumerable: true, get: () => stream })
}

// ---- what is shown of a value ----

// A MIME bundle, or a promise of one when the object that shows itself takes its time.
function bundleOf(value) {
  if (value !== null && typeof value === 'object' && typeof value[displaySymbol] === 'function') {
    return value[displaySymbol]()
  }
  return { 'text/plain': util.inspect(value, { depth: 6 }) }
}

// display(value), or display(bundle, { raw: true }): a result besides the cell's own.
globalThis.display = (value, { raw = false } = {}) => {
  const show = (data) => emit({ type: 'result', data, main: false })
  const bundle = raw ? value : bundleOf(value)
  return util.types.isPromise(bundle) ? bundle.then(show) : show(bundle)
}

// The frames of a stack that are the cell's.
function stackOf(error) {
  const lines = String(error.stack).split('\n')
  const own = lines.findIndex((line) => /node:(internal\/vm|vm|repl|domain)|kernel\.cjs/.test(line))
  return (own > 0 ? lines.slice(0, own) : lines).join('\n')
}

function errorEvent(thrown) {
  const error = thrown instanceof repl.Recoverable ? thrown.err : thrown
  try {
    if (error?.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED') {
      return { type: 'error', name: 'Interrupted', value: 'The cell was interrupted', traceback: '' }
    }
    if (util.types.isNativeError(error) || error instanceof Error) {
      return { type: 'error', name: String(error.name), value: String(error.message), traceback: stackOf(error) }
    }
    return { type: 'error', name: 'Error', value: `Thrown: ${util.inspect(error)}`, traceback: '' }
  } catch (odd) {
    return { type: 'error', name: 'Error', value: 'What was thrown cannot be shown', traceback: String(odd?.stack) }
  }
}

// ---- evaluation ----

// require() looks there last, as imports do. Node.js reads the variable when it is told to.
function findGlobalPackages() {
  const before = process.env.NODE_PATH
  process.env.NODE_PATH = before ? `${before}:${globalPackages}` : globalPackages
  Module._initPaths()
  restore([['NODE_PATH', before]])
}
findGlobalPackages()

const server = repl.start({
  prompt: '',
  input: new PassThrough(),
  output: new Writable({ write: (chunk, encoding, done) => done() }),
  terminal: false,
  useGlobal: true,
  breakEvalOnSigint: true,
})
let running = null // { finish, sync } of the cell under way

function printStray(error) {
  process.stderr.write(`Uncaught ${error?.stack ?? util.inspect(error)}\n`)
}

// A cell's error is given to the REPL's domain, not to its callback. Those that timers and listeners of
// earlier cells throw come there as well, marked by the domain, and are only printed.
function onDomainError(error) {
  if (running && (running.sync || !error?.domainThrown)) running.finish({ error })
  else printStray(error)
}
server._domain?.removeAllListeners('error')
server._domain?.on('error', onDomainError)
process.removeAllListeners('uncaughtException')
process.on('uncaughtException', printStray)
process.on('unhandledRejection', printStray)

// A listener during synchronous code would take the signal from the watchdog that ends it.
const onInterrupt = () => {
  if (!running) return
  server.emit('SIGINT')
  running.interrupt?.()
}

function evaluate(code, name) {
  return new Promise((resolve) => {
    running = { sync: true, finish: resolve }
    process.removeListener('SIGINT', onInterrupt)
    try {
      server.eval(code, server.context, name, (error, value) => resolve(error ? { error } : { value }))
    } catch (error) {
      resolve({ error })
    } finally {
      process.on('SIGINT', onInterrupt)
      if (running) running.sync = false
    }
  })
}

// The promise that a cell ends with is waited for, so that what it does belongs to the cell.
function settled(value) {
  if (!util.types.isPromise(value)) return value
  const interrupted = new Promise((resolve, reject) => {
    running.interrupt = () => reject({ code: 'ERR_SCRIPT_EXECUTION_INTERRUPTED' })
  })
  return Promise.race([value, interrupted])
}

// ---- the environment ----

function variables(list) {
  if (list === '-') return []
  return list.split(',').map((item) => {
    const pair = Buffer.from(item, 'base64').toString()
    return [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]
  })
}

function set(pairs) {
  const before = pairs.map(([name]) => [name, process.env[name]])
  for (const [name, value] of pairs) process.env[name] = value
  return before
}

function restore(before) {
  for (const [name, value] of before) {
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
}

// A clone of this process would draw the same numbers: from here on they come from the system.
function freshen() {
  const pool = Buffer.alloc(4096)
  let at = pool.length
  const source = fs.openSync('/dev/urandom', 'r')
  Math.random = () => {
    if (at === pool.length) {
      fs.readSync(source, pool, 0, pool.length, null)
      at = 0
    }
    const high = pool.readUInt32LE(at) >>> 5
    const low = pool.readUInt32LE(at + 4) >>> 6
    at += 8
    return (high * 2 ** 26 + low) / 2 ** 53
  }
  freshen = () => {
    at = pool.length
  }
}

// ---- commands ----

let count = 0

async function cell(code) {
  let outcome
  try {
    const { locate } = await packages
    outcome = await evaluate(prepare(code, typescript, locate), `cell-${count}`)
    const value = outcome.error ? undefined : await settled(outcome.value)
    if (value !== undefined) {
      emit({ type: 'result', data: await bundleOf(value), main: true })
    }
  } catch (error) {
    outcome = { error }
  }
  running = null
  if (outcome.error) emit(errorEvent(outcome.error))
}

async function run(id, code, env, lasting, fresh) {
  set(variables(lasting))
  if (fresh === '1') freshen()
  const before = set(variables(env))
  emit({ type: 'count', count: ++count })
  await cell(code === '-' ? '' : Buffer.from(code, 'base64').toString())
  restore(before)
  emit({ type: 'done', id: Number(id) })
}

const commands = new net.Socket({ fd: 3, readable: true, writable: false })
const lines = readline.createInterface({ input: commands, crlfDelay: Infinity })
lines.on('line', (line) => {
  const [verb, ...words] = line.split(' ')
  // A signal for the cell before may have come already: it is told first.
  if (verb === 'run') setImmediate(() => run(...words))
})
commands.on('close', () => process.exit(0))
process.on('SIGINT', onInterrupt)
emit({ type: 'ready' })
