// One stream of events for the whole page. Views listen; none of them asks the daemon by itself.
import { effect, signal } from '@preact/signals';
import { ApiError, follow, get, isAbort, sleep } from './api';
import { session } from './session';

export interface SandboxEvent {
  id: string;
  type: string;
  sandboxId: string;
  sandboxTemplateId?: string;
  sandboxBuildId?: string;
  timestamp: string;
  eventData?: Record<string, unknown> | null;
}

export type Feed = 'off' | 'connecting' | 'live' | 'polling';

const ROUTE = '/events/sandboxes';
const POLL_MS = 3000;
const POLL_EVENTS = 100; // the most that the route gives
const SEEN_MAX = 2000;

/** How news arrive. `polling`: this daemon has no stream of events, the page asks every 3 s. */
export const feed = signal<Feed>('off');
/** The newest events first, at most 200. */
export const recent = signal<SandboxEvent[]>([]);
const RECENT_MAX = 200;

type Listener = (event: SandboxEvent) => void;
const listeners = new Set<Listener>();
const reconnects = new Set<() => void>();

/** Calls `listener` with every event from now on. Returns what ends that. */
export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Calls back when the stream is there again after a break: events may have been missed. */
export function onReconnect(again: () => void): () => void {
  reconnects.add(again);
  return () => reconnects.delete(again);
}

let last: string | undefined; // the stream goes on behind this event after a break

function tell(event: SandboxEvent): void {
  if (!event.type) return; // the daemon's last word, with its reason: the next try shows it
  last = event.id;
  recent.value = [event, ...recent.value].slice(0, RECENT_MAX);
  for (const listener of listeners) listener(event);
}

async function poll(stop: AbortSignal): Promise<void> {
  const seen = new Set<string>();
  let first = true;
  while (!stop.aborted) {
    try {
      const events = await get<SandboxEvent[]>(ROUTE, { limit: POLL_EVENTS }, { signal: stop });
      for (const event of events.reverse()) {
        if (seen.has(event.id)) continue;
        seen.add(event.id);
        if (!first) tell(event);
      }
      if (seen.size > SEEN_MAX) [...seen].slice(0, SEEN_MAX / 2).forEach((id) => seen.delete(id));
      first = false;
      feed.value = 'polling';
    } catch (error) {
      if (isAbort(error)) return;
      feed.value = 'connecting';
    }
    await sleep(POLL_MS, stop);
  }
}

const lost = () => {
  for (const again of reconnects) again();
};

async function run(stop: AbortSignal): Promise<void> {
  let before = false;
  try {
    await follow<SandboxEvent>(ROUTE, {
      signal: stop,
      query: () => ({ follow: true, after: last }),
      onLine: tell,
      onState: (live) => {
        feed.value = live ? 'live' : 'connecting';
        if (live && before && !last) lost();
        before ||= live;
      },
    });
  } catch (error) {
    if (error instanceof ApiError && error.status === 404 && last) {
      last = undefined; // that event is no longer kept: there is a gap
      lost();
      await run(stop);
    } else if (error instanceof ApiError && [400, 404, 405, 501].includes(error.status)) await poll(stop);
  }
}

/** Follows events as long as somebody is logged in. */
export function startEvents(): void {
  let stop: AbortController | null = null;
  let team: string | null = null;
  effect(() => {
    const next = session.value ? session.value.team.id + session.value.key.id : null;
    if (next === team) return;
    team = next;
    stop?.abort();
    stop = null;
    feed.value = 'off';
    last = undefined;
    recent.value = [];
    if (next === null) return;
    feed.value = 'connecting';
    stop = new AbortController();
    void run(stop.signal);
  });
}
