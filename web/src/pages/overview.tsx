// The machine and its sandboxes at a glance. Figures are asked for every few seconds while the page
// is in view; what happened arrives as events.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { get, isAbort, path, sentence, sleep } from '../lib/api';
import { eventName, eventReason, onEvent, type SandboxEvent } from '../lib/events';
import { age, bytes, count, dateTime, millis, percent, plural } from '../lib/format';
import { session } from '../lib/session';
import { Badge, Card, EmptyState, ErrorNote, Facts, Figure, Note, PageHead, Spinner, StateBadge } from '../ui/basics';
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

/* How many were created in the minute before each figure. Figures are of a few seconds: one create
 * in them is not twelve a minute. */
function perMinute(rows: TeamMetric[]): number[] {
  const made = rows.map((row, i) => {
    const before = rows[i - 1] ?? row;
    const after = rows[i + 1] ?? row;
    const seconds = i > 0 ? row.timestampUnix - before.timestampUnix : after.timestampUnix - row.timestampUnix;
    return row.sandboxStartRate * Math.min(60, seconds);
  });
  let from = 0;
  let sum = 0;
  return rows.map((row, i) => {
    sum += made[i]!;
    while (rows[from]!.timestampUnix <= row.timestampUnix - 60) sum -= made[from++]!;
    return Math.max(0, sum);
  });
}

function History() {
  const [rows] = useAsked((signal) =>
    get<TeamMetric[]>(path`/teams/${session.value?.team.id ?? ''}/metrics`, { start: Math.floor(Date.now() / 1000) - HOUR_S }, { signal }),
  );
  const data = useMemo(() => {
    const list = rows ?? [];
    return {
      running: [list.map((row) => row.timestampUnix), list.map((row) => row.concurrentSandboxes)] as [number[], number[]],
      rate: [list.map((row) => row.timestampUnix), perMinute(list)] as [number[], number[]],
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

interface Finding {
  verdict: 'degraded' | 'missing';
  name: string;
  sentence: string;
}

interface Overview {
  version: string;
  startedAt: string;
  machine: {
    cpuCount: number;
    load: number[];
    memoryTotal: number;
    memoryUsed: number;
    diskTotal?: number;
    diskUsed?: number;
    keeper: boolean;
  };
  sandboxes: { running: number; paused: number };
  creates: { perMinute: number; requests: number; p50Ms: number | null; p95Ms: number | null; p99Ms: number | null };
  pool: { templateID: string; alias?: string; parked: number }[];
  /** Of all teams; for the operator. */
  allSandboxes?: { running: number; paused: number; starting: number; parked: number; created: number; createFailed: number };
  advice?: Finding[];
}

const FULL = 0.9;
const LOAD_HIGH = 2; // processes that want to run, for each CPU

/* What the figures say by themselves. */
function concerns({ machine }: Overview): string[] {
  const list: string[] = [];
  const disk = machine.diskTotal ? (machine.diskUsed ?? 0) / machine.diskTotal : 0;
  if (!machine.keeper) list.push('The keeper, which starts sandboxes, is not connected: nothing can be created or resumed until it is back.');
  if (disk > FULL) list.push(`The disk of the sandboxes is ${percent(disk * 100)} full: "atoll disk" shows what takes the room.`);
  if (machine.memoryUsed / machine.memoryTotal > FULL) list.push('The memory of the machine is almost used up: pause or kill sandboxes that nobody needs.');
  if ((machine.load[1] ?? 0) > machine.cpuCount * LOAD_HIGH) list.push(`More wants to run than ${plural(machine.cpuCount, 'CPU')} can do: creates and commands take longer.`);
  return list;
}

function Advice({ of }: { of: Overview }) {
  const findings = of.advice ?? [];
  const list = concerns(of);
  if (list.length === 0 && findings.length === 0) {
    return of.advice ? <Note tone="ok">atoll doctor found nothing that asks for something.</Note> : null;
  }
  return (
    <Card title="Advice">
      <div class="column">
        {list.map((text) => (
          <Note tone="warn">{text}</Note>
        ))}
        {findings.map((finding) => (
          <Note tone={finding.verdict === 'degraded' ? 'warn' : 'bad'}>
            <strong>{finding.name}</strong>: {finding.sentence}
          </Note>
        ))}
      </div>
    </Card>
  );
}

function Figures({ of }: { of: Overview }) {
  const { machine, creates, allSandboxes: everybody } = of;
  return (
    <div class="figures">
      <Figure
        name="Running"
        value={<a href="#/sandboxes">{count(of.sandboxes.running)}</a>}
        more={everybody && `${count(everybody.running)} of all teams`}
      />
      <Figure name="Paused" value={count(of.sandboxes.paused)} more={everybody && `${count(everybody.paused)} of all teams`} />
      <Figure
        name="Creates per minute"
        value={String(Math.round(creates.perMinute * 10) / 10)}
        more={creates.p50Ms === null ? 'none since the start' : `half of them in ${millis(creates.p50Ms)}`}
      />
      <Figure
        name="Load"
        value={(machine.load[0] ?? 0).toFixed(2)}
        part={(machine.load[0] ?? 0) / machine.cpuCount}
        more={`${plural(machine.cpuCount, 'CPU')}`}
      />
      <Figure
        name="Memory"
        value={percent((machine.memoryUsed / machine.memoryTotal) * 100)}
        part={machine.memoryUsed / machine.memoryTotal}
        more={`${bytes(machine.memoryUsed)} of ${bytes(machine.memoryTotal)}`}
      />
      {machine.diskTotal !== undefined && machine.diskUsed !== undefined && (
        <Figure
          name="Disk"
          value={percent((machine.diskUsed / machine.diskTotal) * 100)}
          part={machine.diskUsed / machine.diskTotal}
          more={`${bytes(machine.diskUsed)} of ${bytes(machine.diskTotal)}`}
        />
      )}
    </div>
  );
}

function Daemon({ of }: { of: Overview }) {
  const { creates, allSandboxes: everybody } = of;
  const pool = of.pool.filter((entry) => entry.parked > 0);
  return (
    <Card title="This daemon">
      <Facts
        of={[
          ['Version', of.version],
          ['Running for', <span title={dateTime(of.startedAt)}>{age(of.startedAt)}</span>],
          ['Keeper', of.machine.keeper ? <Badge tone="ok" dot>connected</Badge> : <Badge tone="bad" dot>away</Badge>],
          ['Load', of.machine.load.map((value) => value.toFixed(2)).join('  ')],
          ['A create takes', creates.p50Ms === null ? null : `${millis(creates.p50Ms)} (half), ${millis(creates.p95Ms)} (95 %), ${millis(creates.p99Ms)} (99 %)`],
          ['Ready in the pool', pool.length ? pool.map((entry) => `${entry.alias ?? entry.templateID}: ${count(entry.parked)}`).join(', ') : 'none'],
          ['Created, all teams', everybody && `${count(everybody.created)}, ${count(everybody.createFailed)} failed`],
          ['Starting now', everybody && count(everybody.starting)],
        ]}
      />
    </Card>
  );
}

export default function Page() {
  const [overview, error] = useAsked((signal) => get<Overview>('/dashboard/overview', undefined, { signal }));
  return (
    <div class="page">
      <PageHead title="Overview" sub={session.value ? `of the team ${session.value.team.name}` : undefined} />
      <ErrorNote error={error} />
      {overview ? <Figures of={overview} /> : !error && <Spinner />}
      {overview && <Advice of={overview} />}
      <History />
      <div class="grid">
        <Events />
        {overview && <Daemon of={overview} />}
      </div>
    </div>
  );
}
