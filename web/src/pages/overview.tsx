// The machine and its sandboxes at a glance. Figures are asked for every few seconds while the page
// is in view; what happened arrives as events.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { get, isAbort, path, sentence, sleep } from '../lib/api';
import { eventName, eventReason, onEvent, type SandboxEvent } from '../lib/events';
import { age, count, dateTime, megabytes } from '../lib/format';
import { session } from '../lib/session';
import { Card, EmptyState, ErrorNote, Figure, PageHead, Spinner, StateBadge } from '../ui/basics';
import { Chart } from '../ui/lazy';

const ASK_MS = 5000;
const EVENTS = 12;
const HOUR_S = 3600;

interface TeamMetric {
  timestampUnix: number;
  concurrentSandboxes: number;
  sandboxStartRate: number;
}

/** Asks again and again while the page is in view. */
function useAsked<T>(ask: (signal: AbortSignal) => Promise<T>): [T | null, string | null] {
  const [value, setValue] = useState<T | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    const run = async () => {
      while (!stop.signal.aborted) {
        try {
          if (!document.hidden || value === null) setValue(await ask(stop.signal));
          setError(null);
        } catch (thrown) {
          if (isAbort(thrown)) return;
          setError(sentence(thrown));
        }
        await sleep(ASK_MS, stop.signal);
      }
    };
    void run();
    return () => stop.abort();
  }, []);
  return [value, error];
}

function useEvents(): SandboxEvent[] | null {
  const [events, setEvents] = useState<SandboxEvent[] | null>(null);
  useEffect(() => {
    get<SandboxEvent[]>('/events/sandboxes', { limit: EVENTS }).then(setEvents, () => setEvents([]));
    return onEvent((event) => setEvents((old) => [event, ...(old ?? [])].slice(0, EVENTS)));
  }, []);
  return events;
}

function History() {
  const [rows] = useAsked((signal) =>
    get<TeamMetric[]>(path`/teams/${session.value?.team.id ?? ''}/metrics`, { start: Math.floor(Date.now() / 1000) - HOUR_S }, { signal }),
  );
  const data = useMemo(() => {
    const list = rows ?? [];
    return {
      running: [list.map((row) => row.timestampUnix), list.map((row) => row.concurrentSandboxes)] as [number[], number[]],
      rate: [list.map((row) => row.timestampUnix), list.map((row) => row.sandboxStartRate * 60)] as [number[], number[]],
    };
  }, [rows]);
  return (
    <div class="grid">
      <Card title="Running sandboxes, the last hour">
        <Chart label="Running sandboxes over the last hour" data={data.running} series={[{ label: 'running' }]} max={4} span={HOUR_S} format={(n) => count(Math.round(n))} />
      </Card>
      <Card title="Creates per minute, the last hour">
        <Chart label="Creates per minute over the last hour" data={data.rate} series={[{ label: 'per minute', color: '--info' }]} max={4} span={HOUR_S} format={(n) => String(Math.round(n * 10) / 10)} />
      </Card>
    </div>
  );
}

function Events() {
  const events = useEvents();
  return (
    <Card title="What happened">
      {events === null ? (
        <Spinner />
      ) : events.length === 0 ? (
        <EmptyState title="Nothing yet" line="atoll run echo hello">
          Create a sandbox, and its life is told here.
        </EmptyState>
      ) : (
        <ul class="event-list" aria-label="The latest events">
          {events.map((event) => (
            <li key={event.id}>
              <span class="faint num nowrap" title={dateTime(event.timestamp)}>
                {age(event.timestamp)} ago
              </span>
              <StateBadge state={eventName(event.type)} />
              <a class="mono ellipsis" href={`#/sandboxes/${encodeURIComponent(event.sandboxId)}`}>
                {event.sandboxId}
              </a>
              <span class="muted ellipsis grow">{eventReason(event)}</span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

interface Usage {
  limits: { sandboxes: number | null };
  now: { sandboxes: number; pausedSandboxes: number; cpus: number; memoryMB: number };
  measured: { cpus: number; memoryMB: number; diskMB: number };
}

export default function Page() {
  const [usage, error] = useAsked((signal) => get<Usage>(path`/teams/${session.value?.team.id ?? ''}/usage`, undefined, { signal }));
  return (
    <div class="page">
      <PageHead title="Overview" sub={session.value?.team.name} />
      <ErrorNote error={error} />
      {usage ? (
        <div class="figures">
          <Figure name="Running" value={<a href="#/sandboxes">{count(usage.now.sandboxes)}</a>} more={usage.limits.sandboxes ? `of ${count(usage.limits.sandboxes)} allowed` : undefined} />
          <Figure name="Paused" value={count(usage.now.pausedSandboxes)} />
          <Figure name="CPUs in use" value={usage.measured.cpus.toFixed(1)} more={`${count(usage.now.cpus)} given out`} />
          <Figure name="Memory in use" value={megabytes(usage.measured.memoryMB)} more={`${megabytes(usage.now.memoryMB)} given out`} />
          <Figure name="Disk in use" value={megabytes(usage.measured.diskMB)} />
        </div>
      ) : (
        !error && <Spinner />
      )}
      <History />
      <Events />
    </div>
  );
}
