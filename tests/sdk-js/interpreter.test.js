// run_code of the official package for JavaScript.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Sandbox } from '@e2b/code-interpreter'

const sandbox = await Sandbox.create({ timeoutMs: 300_000 })
after(() => sandbox.kill())

test('state lasts from cell to cell', async () => {
  await sandbox.runCode('x = 41')
  const execution = await sandbox.runCode('x + 1')
  assert.equal(execution.text, '42')
  assert.equal(execution.error, undefined)
  assert.ok(execution.executionCount > 1)
})

test('output and results come while the cell runs', async () => {
  const seen = { out: '', err: '', results: [], errors: [] }
  const execution = await sandbox.runCode(
    "import os, sys, time\nprint('first', flush=True)\n" +
      "while not os.path.exists('/tmp/js-go-on'): time.sleep(0.01)\n" +
      "print('second', file=sys.stderr)\ndisplay(3)\n1 / 0",
    {
      onStdout: (message) => {
        seen.out += message.line
        return sandbox.files.write('/tmp/js-go-on', '')
      },
      onStderr: (message) => void (seen.err += message.line),
      onResult: (result) => void seen.results.push(result.text),
      onError: (error) => void seen.errors.push(error.name),
    }
  )
  assert.deepEqual(seen, {
    out: 'first\n',
    err: 'second\n',
    results: ['3'],
    errors: ['ZeroDivisionError'],
  })
  assert.equal(execution.error.name, 'ZeroDivisionError')
  assert.match(execution.error.traceback, /1 \/ 0/)
})

const languages = {
  python: "print('hello')",
  javascript: "console.log('hello')",
  js: "console.log('hello')",
  typescript: "const word: string = 'hello'; console.log(word)",
  ts: "type T = string; const text: T = 'hello'; console.log(text)",
  bash: 'echo hello',
  r: 'cat("hello\\n")',
  java: 'System.out.println("hello");',
}
for (const [language, code] of Object.entries(languages)) {
  test(`${language} prints`, async () => {
    const execution = await sandbox.runCode(code, { language })
    assert.equal(execution.error, undefined)
    assert.equal(execution.logs.stdout.join(''), 'hello\n')
  })
}

test('JavaScript awaits, requires and imports', async () => {
  const execution = await sandbox.runCode(
    "import { join } from 'node:path'\nconst os = require('os')\n" +
      "console.log(join('a', await Promise.resolve('b')), typeof os.cpus)\n6 * 7",
    { language: 'javascript' }
  )
  assert.equal(execution.error, undefined)
  assert.equal(execution.logs.stdout.join(''), 'a/b function\n')
  assert.equal(execution.text, '42')
})

test('results have many forms', async () => {
  const kinds = {
    html: ["from IPython.display import HTML; HTML('<b>x</b>')", '<b>x</b>'],
    markdown: ["from IPython.display import Markdown; Markdown('# x')", '# x'],
    latex: ["from IPython.display import Latex; Latex('$x$')", '$x$'],
    javascript: ["from IPython.display import Javascript; Javascript('x()')", 'x()'],
    text: ["'plain'", 'plain'],
  }
  for (const [kind, [code, want]] of Object.entries(kinds)) {
    const [result] = (await sandbox.runCode(code)).results
    assert.equal(result[kind], want)
    assert.ok(kind === 'text' || result.formats().includes(kind))
  }
  const [json] = (await sandbox.runCode("{'a': [1, None]}")).results
  assert.deepEqual(json.json, { a: [1, null] })
})

test('a table is data too', async () => {
  const [result] = (
    await sandbox.runCode("import pandas as pd\npd.DataFrame({'n': [1, 2], 's': ['a', 'b']})")
  ).results
  assert.deepEqual(result.data, { n: [1, 2], s: ['a', 'b'] })
  assert.match(result.html, /<table/)
})

const plot = 'import matplotlib.pyplot as plt\n'
const charts = {
  line: "plt.plot([1, 2], [3, 4], label='l')",
  scatter: 'plt.scatter([1, 2], [3, 4])',
  bar: "plt.bar(['a', 'b'], [1, 2])",
  pie: "plt.pie([1, 3], labels=['a', 'b'])",
  box_and_whisker: 'plt.boxplot([[1, 2, 3], [1, 5, 9]], patch_artist=True)',
  superchart: 'f, axes = plt.subplots(1, 2)\naxes[0].plot([1])\naxes[1].bar([1], [2])',
  unknown: 'plt.imshow([[0, 1], [1, 0]])',
}
for (const [type, code] of Object.entries(charts)) {
  test(`a figure is a ${type}`, async () => {
    const { results, error } = await sandbox.runCode(`${plot}${code}\nplt.show()`)
    assert.equal(error, undefined)
    assert.equal(results.length, 1)
    assert.ok(results[0].png.startsWith('iVBORw0KGgo'))
    assert.equal(results[0].chart.type, type)
    if (type === 'line') {
      assert.deepEqual(results[0].chart.elements, [{ label: 'l', points: [[1, 3], [2, 4]] }])
    }
  })
}

test('contexts are apart, and can be listed, restarted and removed', async () => {
  const context = await sandbox.createCodeContext({ language: 'python', cwd: '/tmp' })
  assert.equal(context.cwd, '/tmp')
  await sandbox.runCode('only = "here"', { context })
  assert.equal((await sandbox.runCode('only')).error.name, 'NameError')
  assert.equal((await sandbox.runCode('only', { context })).text, 'here')
  await sandbox.restartCodeContext(context)
  assert.equal((await sandbox.runCode('only', { context })).error.name, 'NameError')
  assert.ok((await sandbox.listCodeContexts()).some((one) => one.id === context.id))
  await sandbox.removeCodeContext(context)
  assert.ok(!(await sandbox.listCodeContexts()).some((one) => one.id === context.id))
  await assert.rejects(sandbox.runCode('1', { context }), new RegExp(context.id))
})

test('contexts run side by side', async () => {
  const code = (me, other) =>
    `import os, time\nopen('/tmp/js-met-${me}', 'w').close()\n` +
    `while not os.path.exists('/tmp/js-met-${other}'): time.sleep(0.01)\n'met'`
  const contexts = await Promise.all([0, 1].map(() => sandbox.createCodeContext()))
  const executions = await Promise.all(
    contexts.map((context, me) => sandbox.runCode(code(me, 1 - me), { context }))
  )
  assert.deepEqual(executions.map((one) => one.text), ['met', 'met'])
  await Promise.all(contexts.map((context) => sandbox.removeCodeContext(context)))
})

test('variables of one run are gone afterwards', async () => {
  const code = "import os\nprint(os.environ.get('ONE_RUN'))"
  const first = await sandbox.runCode(code, { envs: { ONE_RUN: 'value' } })
  assert.equal(first.logs.stdout.join(''), 'value\n')
  assert.equal((await sandbox.runCode(code)).logs.stdout.join(''), 'None\n')
})
