// Code cells: what was written, what came of it, and the stream between the two.
import { signal, type Signal } from '@preact/signals';
import { ApiError, lines, sentence } from '../../../lib/api';
import type { Box } from '../box';

export const INTERPRETER_PORT = 49999;
const OUTPUT_CHARS_MAX = 400_000; // of one cell: a loop that prints must not fill the browser
const RESULTS_MAX = 200;

export interface Context {
  id: string;
  language: string;
  cwd?: string;
}

export interface Result {
  text?: string;
  html?: string;
  markdown?: string;
  svg?: string;
  png?: string;
  jpeg?: string;
  latex?: string;
  json?: unknown;
  javascript?: string;
  data?: unknown;
  chart?: unknown;
  is_main_result?: boolean;
  [more: string]: unknown;
}

export type Output =
  | { kind: 'stdout' | 'stderr'; text: string }
  | { kind: 'result'; result: Result }
  | { kind: 'error'; name: string; value: string; traceback: string }
  | { kind: 'note'; text: string };

export interface Cell {
  readonly key: number;
  readonly code: Signal<string>;
  readonly context: Signal<string>;
  readonly outputs: Signal<Output[]>;
  readonly number: Signal<number | null>;
  readonly running: Signal<AbortController | null>;
}

let made = 0;

export const newCell = (context: string, code = ''): Cell => ({
  key: ++made,
  code: signal(code),
  context: signal(context),
  outputs: signal([]),
  number: signal(null),
  running: signal(null),
});

interface Line {
  type: string;
  text?: string;
  execution_count?: number;
  name?: string;
  value?: string;
  traceback?: string;
}

function add(cell: Cell, output: Output): void {
  const all = cell.outputs.value;
  const last = all[all.length - 1];
  if ((output.kind === 'stdout' || output.kind === 'stderr') && last?.kind === output.kind) {
    const joined = last.text + output.text;
    const text = joined.length > OUTPUT_CHARS_MAX ? `…${joined.slice(-OUTPUT_CHARS_MAX / 2)}` : joined;
    cell.outputs.value = [...all.slice(0, -1), { kind: output.kind, text }];
  } else if (all.length < RESULTS_MAX) cell.outputs.value = [...all, output];
}

/* False when the end was told. */
function take(cell: Cell, line: Line): boolean {
  if (line.type === 'stdout' || line.type === 'stderr') add(cell, { kind: line.type, text: line.text ?? '' });
  else if (line.type === 'number_of_executions') cell.number.value = line.execution_count ?? null;
  else if (line.type === 'result') add(cell, { kind: 'result', result: line as unknown as Result });
  else if (line.type === 'error') add(cell, { kind: 'error', name: line.name ?? '', value: line.value ?? '', traceback: line.traceback ?? '' });
  return line.type !== 'end_of_execution';
}

/** Runs it; ending the request interrupts the kernel. */
export async function run(box: Box, cell: Cell): Promise<void> {
  cell.running.value?.abort();
  const stop = new AbortController();
  cell.running.value = stop;
  cell.outputs.value = [];
  cell.number.value = null;
  const left = () => stop.abort();
  box.leave.addEventListener('abort', left);
  try {
    const answer = await box.agent().send('POST', '/execute', JSON.stringify({ code: cell.code.value, context_id: cell.context.value }), {
      port: INTERPRETER_PORT,
      signal: stop.signal,
      headers: { 'Content-Type': 'application/json' },
    });
    let open = true;
    for await (const line of lines(answer.body!)) open = take(cell, JSON.parse(line) as Line) && open;
    if (open) add(cell, { kind: 'note', text: 'The connection ended before the code did.' });
  } catch (error) {
    if (cell.running.value === stop) add(cell, { kind: 'note', text: stop.signal.aborted ? 'Interrupted.' : sentence(error) });
  }
  box.leave.removeEventListener('abort', left);
  if (cell.running.value === stop) cell.running.value = null;
}

const at = { port: INTERPRETER_PORT };

export const contexts = (box: Box, signal?: AbortSignal) => box.agent().json<Context[]>('GET', '/contexts', undefined, { ...at, signal });
export const newContext = (box: Box, language: string, cwd?: string) => box.agent().json<Context>('POST', '/contexts', { language, cwd }, at);
export const restart = (box: Box, id: string) => box.agent().json('POST', `/contexts/${encodeURIComponent(id)}/restart`, undefined, at);
export const remove = (box: Box, id: string) => box.agent().json('DELETE', `/contexts/${encodeURIComponent(id)}`, undefined, at);

/** Nothing listens on the interpreter's port. */
export const isMissing = (error: unknown) => error instanceof ApiError && (error.status === 502 || error.status === 404);
