// How much a sandbox used over its life.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { get, isAbort, path, sentence } from '../../lib/api';
import { bytes, percent, plural } from '../../lib/format';
import { Card, EmptyState, ErrorNote, Figure, Spinner } from '../../ui/basics';
import { Chart } from '../../ui/lazy';
import type { Box } from './box';

interface Metric {
  timestampUnix: number;
  cpuCount: number;
  cpuUsedPct: number;
  memUsed: number;
  memTotal: number;
  memCache: number;
  diskUsed: number;
  diskTotal: number;
  networkReceived: number;
  networkSent: number;
}

const ASK_MS = 5000;
const POINTS_MAX = 1500; // more than a screen has columns
const RANGES: [string, number][] = [
  ['Its whole life', 0],
  ['24 hours', 86400],
  ['6 hours', 6 * 3600],
  ['1 hour', 3600],
  ['15 minutes', 900],
  ['5 minutes', 300],
];

/* Each point is the largest of its part, so that a short peak stays to be seen. */
function thinned(all: Metric[]): Metric[] {
  const each = Math.ceil(all.length / POINTS_MAX);
  if (each <= 1) return all;
  const points: Metric[] = [];
  for (let i = 0; i < all.length; i += each) {
    points.push(all.slice(i, i + each).reduce((most, next) => (next.cpuUsedPct > most.cpuUsedPct ? next : most)));
  }
  return points;
}

/* A counter of bytes as bytes per second; a resumed sandbox counts from nothing again. */
function rate(points: Metric[], of: (metric: Metric) => number | undefined): (number | null)[] {
  return points.map((point, i) => {
    const before = points[i - 1];
    const now = of(point);
    const then = before && of(before);
    if (now === undefined || then === undefined || now < then) return null;
    return (now - then) / Math.max(1, point.timestampUnix - before!.timestampUnix);
  });
}

export default function FiguresTab({ box }: { box: Box }) {
  const [range, setRange] = useState(0);
  const [metrics, setMetrics] = useState<Metric[] | null>(null);
  const [error, setError] = useState<string | null>(null);
  const have = useRef<Metric[]>([]);
  const gone = box.state.value === 'gone';
  useEffect(() => {
    if (gone) return; // the daemon has forgotten them: those that were read stay
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    have.current = [];
    const started = Math.floor(new Date(box.detail.value?.createdAt ?? box.detail.value?.startedAt ?? 0).getTime() / 1000);
    const ask = async () => {
      const now = Math.floor(Date.now() / 1000);
      const first = range ? now - range : started;
      const last = have.current[have.current.length - 1]?.timestampUnix;
      try {
        const next = await get<Metric[]>(path`/sandboxes/${box.id}/metrics`, { start: last ? last + 1 : first || undefined, end: now }, { signal: stop.signal });
        have.current = [...have.current, ...next].filter((metric) => metric.timestampUnix >= first);
        setMetrics(have.current);
        setError(null);
      } catch (thrown) {
        if (stop.signal.aborted || isAbort(thrown)) return;
        setError(sentence(thrown));
      }
      if (!stop.signal.aborted && box.state.value === 'running') timer = setTimeout(ask, ASK_MS);
    };
    void ask();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [range, box.id, box.state.value]);

  const points = useMemo(() => thinned(metrics ?? []), [metrics]);
  const times = useMemo(() => points.map((metric) => metric.timestampUnix), [points]);
  const last = points[points.length - 1];
  if (!metrics && gone) {
    return (
      <EmptyState title="No figures are kept">
        The daemon keeps the figures of a sandbox until it ends. Its <a href={`#/sandboxes/${encodeURIComponent(box.id)}/events`}>events</a> and{' '}
        <a href={`#/sandboxes/${encodeURIComponent(box.id)}/logs`}>logs</a> stay for seven days.
      </EmptyState>
    );
  }
  if (!metrics) return error ? <ErrorNote error={error} /> : <Spinner label="Asking for the figures" />;
  const column = (of: (metric: Metric) => number) => points.map(of);
  return (
    <div class="scroll-panel">
      <ErrorNote error={error} />
      <div class="row wrap">
        <select class="input" aria-label="Range" value={range} onChange={(event) => setRange(Number(event.currentTarget.value))}>
          {RANGES.map(([label, seconds]) => (
            <option value={seconds}>{label}</option>
          ))}
        </select>
        <span class="muted small">{box.state.value === 'running' ? 'A new figure comes every few seconds.' : gone ? 'The sandbox has ended. These figures are gone when the page is left.' : 'There are no new figures while it does not run.'}</span>
      </div>
      {!last ? (
        <EmptyState title="No figures" line={`atoll stats ${box.id}`}>
          {range ? 'None were taken in this range. ' : 'The first come a second after a sandbox has started. '}On the command line:
        </EmptyState>
      ) : (
        <>
          <div class="figures">
            <Figure name="CPU" value={percent(last.cpuUsedPct, 1)} part={last.cpuUsedPct / 100} more={`of ${plural(last.cpuCount, 'cpu')}`} />
            <Figure name="Memory" value={bytes(last.memUsed)} part={last.memUsed / last.memTotal} more={`of ${bytes(last.memTotal)}`} />
            <Figure name="Disk" value={bytes(last.diskUsed)} part={last.diskUsed / last.diskTotal} more={`of ${bytes(last.diskTotal)}`} />
          </div>
          <div class="grid charts">
            <Card title="CPU">
              <Chart label="CPU over time" data={[times, column((m) => m.cpuUsedPct)]} series={[{ label: 'CPU', color: '--accent' }]} format={(value) => percent(value)} max={100} />
            </Card>
            <Card title="Memory">
              <Chart
                label="Memory over time"
                data={[times, column((m) => m.memUsed), column((m) => m.memCache)]}
                series={[
                  { label: 'Used', color: '--info' },
                  { label: 'Cache', color: '--faint' },
                ]}
                format={bytes}
              />
            </Card>
            <Card title="Disk">
              <Chart label="Disk over time" data={[times, column((m) => m.diskUsed)]} series={[{ label: 'Used', color: '--violet' }]} format={bytes} />
            </Card>
            <Card title="Network">
              <Chart
                label="Network over time"
                data={[times, rate(points, (m) => m.networkReceived), rate(points, (m) => m.networkSent)]}
                series={[
                  { label: 'In', color: '--ok' },
                  { label: 'Out', color: '--warn' },
                ]}
                format={(value) => `${bytes(value)}/s`}
                max={1000}
              />
            </Card>
          </div>
        </>
      )}
    </div>
  );
}
