// The list of sandboxes that is kept up to date: loaded once, then changed by events. Figures (cpu,
// memory, disk) have no stream; they are asked for the rows in view.
import { signal } from '@preact/signals';
import type { Detail } from './agent';
import { del, get, path, post, sentence } from './api';
import { onEvent, onReconnect, whenLive, type SandboxEvent } from './events';

export interface SandboxRow {
  id: string;
  state: string;
  templateID: string;
  template: string;
  createdAt: string;
  endAt: string;
  metadata: Record<string, string>;
  cpuCount: number;
  memoryBytes: number;
  diskBytes: number;
  cpuPct?: number;
  memUsed?: number;
  diskUsed?: number;
  lastError?: string;
  parent?: string;
}

interface Figures {
  cpuUsedPct?: number;
  memUsed?: number;
  memTotal?: number;
  diskUsed?: number;
  diskTotal?: number;
}

/* A row of /dashboard/sandboxes; GET /sandboxes/{id} has the same names and less of them. */
interface Raw extends Partial<Omit<Detail, 'state'>>, Figures {
  sandboxID: string;
  state: string;
  /** What it is about to be. */
  changing?: 'pausing' | 'resuming';
  lastError?: { message: string; at: string } | null;
  parentID?: string;
  parentKind?: 'sandbox' | 'snapshot';
}

interface Page {
  sandboxes: Raw[];
  nextCursor: string | null;
}

const MIB = 1024 * 1024;
const METRIC_IDS_MAX = 100; // what the route takes at once
const FIGURES_MS = 5000;
const PAGE_ROWS = 1000;
const PAGES_MAX = 100;

export const sandboxes = signal<ReadonlyMap<string, SandboxRow>>(new Map());
export const loading = signal(true);
export const loadError = signal<string | null>(null);

const figures = (raw: Figures): Partial<SandboxRow> => ({ cpuPct: raw.cpuUsedPct, memUsed: raw.memUsed, diskUsed: raw.diskUsed });

function rowOf(raw: Raw): SandboxRow {
  return {
    id: raw.sandboxID,
    state: raw.changing ?? raw.state,
    templateID: raw.templateID ?? '',
    template: raw.alias ?? raw.templateID ?? '',
    createdAt: raw.createdAt ?? raw.startedAt ?? '',
    endAt: raw.endAt ?? '',
    metadata: raw.metadata ?? {},
    cpuCount: raw.cpuCount ?? 0,
    memoryBytes: (raw.memoryMB ?? 0) * MIB,
    diskBytes: (raw.diskSizeMB ?? 0) * MIB,
    lastError: raw.lastError?.message,
    parent: raw.parentID,
    ...figures(raw),
  };
}

async function rows(): Promise<Raw[]> {
  const list: Raw[] = [];
  let cursor: string | null | undefined;
  for (let i = 0; i < PAGES_MAX && cursor !== null; i++) {
    const page: Page = await get<Page>('/dashboard/sandboxes', { limit: PAGE_ROWS, cursor });
    list.push(...page.sandboxes);
    cursor = page.nextCursor;
  }
  return list;
}

let generation = 0;

export async function load(): Promise<void> {
  const mine = ++generation;
  try {
    const list = await rows();
    if (mine !== generation) return;
    sandboxes.value = new Map(list.map((raw) => [raw.sandboxID, rowOf(raw)]));
    loadError.value = null;
  } catch (error) {
    if (mine === generation) loadError.value = sentence(error);
  } finally {
    if (mine === generation) loading.value = false;
  }
}

/* -- events: many at once become one change of the list -- */

const CHANGE_MS = 150;
const ASKED_AT_ONCE = 20;
const changed = new Map<string, SandboxEvent>();
let timer: ReturnType<typeof setTimeout> | undefined;

async function one(id: string): Promise<SandboxRow | null> {
  try {
    const row = rowOf(await get<Raw>(path`/sandboxes/${id}`));
    const before = sandboxes.value.get(id);
    const { cpuPct, memUsed, diskUsed, lastError, parent } = before ?? ({} as Partial<SandboxRow>);
    return { ...row, cpuPct, memUsed, diskUsed, lastError, parent };
  } catch {
    return null; // it is gone, or not ours
  }
}

async function apply(): Promise<void> {
  timer = undefined;
  const events = [...changed.values()];
  changed.clear();
  if (events.length > ASKED_AT_ONCE) return load();
  const gone = new Set(events.filter((event) => event.type.endsWith('.killed')).map((event) => event.sandboxId));
  const fresh = await Promise.all(events.filter((event) => !gone.has(event.sandboxId)).map((event) => one(event.sandboxId)));
  const next = new Map(sandboxes.value);
  for (const id of gone) next.delete(id);
  for (const row of fresh) if (row) next.set(row.id, row);
  sandboxes.value = next;
}

function noticed(event: SandboxEvent): void {
  if (!event.type.startsWith('sandbox.lifecycle.')) return;
  changed.set(event.sandboxId, event);
  timer ??= setTimeout(() => void apply(), CHANGE_MS);
}

/* -- figures of the rows in view -- */

let inView: string[] = [];

async function askFigures(): Promise<void> {
  const ids = inView.filter((id) => sandboxes.value.get(id)?.state === 'running').slice(0, METRIC_IDS_MAX);
  if (ids.length === 0 || document.hidden) return;
  try {
    const answer = await get<{ sandboxes: Record<string, Figures> }>('/sandboxes/metrics', { sandbox_ids: ids.join(',') });
    const next = new Map(sandboxes.value);
    for (const [id, metric] of Object.entries(answer.sandboxes)) {
      const row = next.get(id);
      if (row) next.set(id, { ...row, ...figures(metric) });
    }
    sandboxes.value = next;
  } catch {
    // the next time
  }
}

export function setInView(shown: SandboxRow[]): void {
  inView = shown.map((row) => row.id);
}

/** Loads the list and keeps it true until the returned function is called. */
export function keepList(): () => void {
  loading.value = sandboxes.value.size === 0;
  void whenLive().then(load).then(askFigures);
  const asking = setInterval(() => void askFigures(), FIGURES_MS);
  const ends = [onEvent(noticed), onReconnect(() => void load())];
  return () => {
    clearInterval(asking);
    clearTimeout(timer);
    timer = undefined;
    ends.forEach((end) => end());
  };
}

/* -- what can be done to sandboxes -- */

export type Action = 'kill' | 'pause' | 'resume';

export const kill = (id: string) => del(path`/sandboxes/${id}`);
export const pause = (id: string) => post(path`/sandboxes/${id}/pause`, {});
/* As long as a new one has; without it the daemon gives five minutes, and kills it then. */
export const RESUME_S = 900;
export const resume = (id: string) => post(path`/v2/sandboxes/${id}/connect`, { timeout: RESUME_S });
const RUN: Record<Action, (id: string) => Promise<unknown>> = { kill, pause, resume };

const AT_ONCE = 4;

/** Does it to each, a few at a time. Returns the sentences of those that were refused, by id. */
export async function each(action: Action, ids: string[], done?: (n: number) => void): Promise<Map<string, string>> {
  const refused = new Map<string, string>();
  const queue = [...ids];
  let finished = 0;
  const worker = async () => {
    for (let id = queue.shift(); id !== undefined; id = queue.shift()) {
      try {
        await RUN[action](id);
      } catch (error) {
        refused.set(id, sentence(error));
      }
      done?.(++finished);
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, ids.length) }, worker));
  return refused;
}
