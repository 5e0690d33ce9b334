// The measurements' hand in JavaScript: the unmodified SDK, asked and answering as bench/main.c, of
// which it has "flows". BENCH_PACKAGES names the directory whose node_modules has the SDK.

import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const { Sandbox } = createRequire(process.env.BENCH_PACKAGES + '/')('e2b')
const SANDBOX_MS = 3_600_000
const held = []

const actions = {
  create: async (flow, asked) => (flow.box = await Sandbox.create(asked.template ?? 'base', { timeoutMs: SANDBOX_MS })),
  run: (flow, asked) => flow.box.commands.run(asked.command),
  kill: (flow) => flow.box.kill(),
}

async function pass(flow, asked) {
  const begin = performance.now()
  try {
    for (const step of asked.steps) {
      const at = performance.now()
      await actions[step](flow, asked)
      flow[step] = performance.now() - at
    }
  } catch (error) {
    console.error(`bench: ${error}`)
    flow.failed = true
  }
  flow.total = performance.now() - begin
}

function deal(asked) {
  const killing = asked.steps.includes('kill')
  if (asked.steps.includes('create')) return Array.from({ length: asked.n }, () => ({}))
  if (killing) return held.splice(-asked.n).map((box) => ({ box }))
  return Array.from({ length: asked.n }, (_, i) => ({ box: held[i % held.length] }))
}

async function flows(asked) {
  const all = deal(asked)
  const begin = performance.now()
  let next = 0
  const lane = async () => {
    while (next < all.length && !(asked.span_s && performance.now() - begin > asked.span_s * 1000)) {
      const index = next++
      const due = (asked.stagger_ms ?? 0) * index - (performance.now() - begin)
      if (due > 0) await new Promise((resolve) => setTimeout(resolve, due))
      await pass(all[index], asked)
    }
  }
  await Promise.all(Array.from({ length: Math.min(asked.lanes ?? 1, all.length) }, lane))
  const all_ms = performance.now() - begin
  if (asked.steps.includes('create') && !asked.steps.includes('kill')) {
    held.push(...all.map((flow) => flow.box).filter(Boolean))
  }
  const done = all.filter((flow) => flow.total !== undefined && !flow.failed)
  const answer = { failed: all.filter((flow) => flow.failed).length, all_ms }
  for (const name of [...asked.steps, 'total']) answer[name] = done.map((flow) => flow[name])
  return answer
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await flows(JSON.parse(line)).catch((error) => (console.error(`bench: ${error}`), { error: true }))
  process.stdout.write(JSON.stringify(answer) + '\n')
}
