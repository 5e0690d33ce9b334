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

/** "sandbox.lifecycle.paused" is "paused". */
export const eventName = (type: string): string => type.split('.').pop() ?? type;

/** Why it happened or what it says, if the event tells. */
export function eventReason(event: SandboxEvent): string {
  const data = event.eventData ?? {};
  if (typeof data.kill_reason === 'string') return data.kill_reason.replaceAll('_', ' ');
  if (typeof data.memory_lost === 'string') return `memory lost: ${data.memory_lost}`;
  if (typeof data.fork_of === 'string') return `fork of ${data.fork_of}`;
  if (typeof data.set_timeout === 'string') return `until ${data.set_timeout}`;
  return '';
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
  recent.value = [event, ...recent.peek()].slice(0, RECENT_MAX);
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

let before = false; // there was a stream

const LIVE_WAIT_MS = 1500;

/** Waits until events arrive, but not for long: a list that is loaded then misses none of them. */
export async function whenLive(): Promise<void> {
  for (const end = Date.now() + LIVE_WAIT_MS; Date.now() < end; await sleep(20)) {
    if (feed.peek() === 'live' || feed.peek() === 'polling') return;
  }
  before = true; // the list is loaded without it, and once more when the stream is there
}

async function run(stop: AbortSignal): Promise<void> {
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

const HIDDEN_MS = 10_000;

/* A window that nobody looks at gives its connection back: a browser has few of them without TLS. The
 * stream goes on behind the last event when somebody looks again. */
const inView = signal(!document.hidden);
let hiding: ReturnType<typeof setTimeout> | undefined;
document.addEventListener('visibilitychange', () => {
  clearTimeout(hiding);
  if (!document.hidden) inView.value = true;
  else hiding = setTimeout(() => (inView.value = false), HIDDEN_MS);
});

/** Follows events as long as somebody is logged in and looks. */
export function startEvents(): void {
  let stop: AbortController | null = null;
  let who: string | null = null;
  effect(() => {
    const now = session.value ? session.value.team.id + session.value.key.id : null;
    const wanted = now !== null && inView.value;
    if (now !== who) {
      last = undefined;
      before = false;
      recent.value = [];
    } else if (wanted === (stop !== null)) {
      return;
    }
    who = now;
    stop?.abort();
    stop = wanted ? new AbortController() : null;
    feed.value = wanted ? 'connecting' : 'off';
    if (stop) void run(stop.signal);
  });
}
