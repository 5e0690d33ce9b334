// One sandbox as its page knows it: what the daemon says of it, and whether it is still there. Events
// keep it true.
import { signal, type Signal } from '@preact/signals';
import { Agent, type Detail } from '../../lib/agent';
import { ApiError, get, path, sentence } from '../../lib/api';
import { onEvent, onReconnect, type SandboxEvent } from '../../lib/events';

export type State = 'running' | 'paused' | 'gone';

/** Why it ended, as the event tells it. */
export interface End {
  at: string;
  reason?: string;
}

export interface Box {
  readonly id: string;
  /** Null until the daemon has answered, and for a sandbox that was gone before. */
  readonly detail: Signal<Detail | null>;
  readonly state: Signal<State | null>;
  readonly end: Signal<End | null>;
  readonly error: Signal<string | null>;
  /** Counts events of this sandbox, for tabs that ask again when something happened. */
  readonly changes: Signal<number>;
  /** Aborted when the page is left. */
  readonly leave: AbortSignal;
  agent(): Agent;
  load(): Promise<void>;
}

export const KILLED = 'sandbox.lifecycle.killed';

export function reasonOf(event: SandboxEvent): string | undefined {
  const reason = event.eventData?.kill_reason ?? event.eventData?.reason;
  return typeof reason === 'string' ? reason : undefined;
}

async function endOf(id: string): Promise<End | null> {
  const events = await get<SandboxEvent[]>(path`/events/sandboxes/${id}`, { limit: 100 }).catch(() => []);
  const killed = events.find((event) => event.type === KILLED);
  return killed ? { at: killed.timestamp, reason: reasonOf(killed) } : null;
}

export function openBox(id: string): { box: Box; close: () => void } {
  const leave = new AbortController();
  const box: Box = {
    id,
    detail: signal(null),
    state: signal(null),
    end: signal(null),
    error: signal(null),
    changes: signal(0),
    leave: leave.signal,
    agent: () => (box.detail.value ? Agent.of(box.detail.value) : new Agent(id)),
    load: async () => {
      try {
        box.detail.value = await get<Detail>(path`/sandboxes/${id}`, undefined, { signal: leave.signal });
        box.state.value = box.detail.value.state;
        box.error.value = null;
      } catch (error) {
        if (leave.signal.aborted) return;
        if (error instanceof ApiError && error.status === 404) {
          box.end.value ??= await endOf(id);
          box.state.value = 'gone';
        }
        box.error.value = sentence(error);
      }
    },
  };
  const noticed = (event: SandboxEvent) => {
    if (event.sandboxId !== id) return;
    if (event.type === KILLED) {
      box.end.value = { at: event.timestamp, reason: reasonOf(event) };
      box.state.value = 'gone';
    } else if (event.type.startsWith('sandbox.lifecycle.')) void box.load();
    box.changes.value++;
  };
  const ends = [onEvent(noticed), onReconnect(() => void box.load())];
  void box.load();
  return {
    box,
    close: () => {
      ends.forEach((end) => end());
      leave.abort();
    },
  };
}
