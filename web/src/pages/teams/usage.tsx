// What a team uses now, of how much, and what it used by the hour.
import { useMemo } from 'preact/hooks';
import { count, duration, megabytes } from '../../lib/format';
import type { Amounts, Limits } from '../../lib/limits';
import { Card, EmptyState, Facts, Figure } from '../../ui/basics';
import { Chart } from '../../ui/lazy';

interface Sums {
  sandboxSeconds: number;
  cpuSeconds: number;
  memoryMBSeconds: number;
  diskMBSeconds: number;
  buildSeconds: number;
  builds: number;
}

export interface Usage {
  teamID: string;
  name: string;
  limits: Limits;
  now: Amounts & { pausedSandboxes: number };
  measured: { cpus: number; memoryMB: number; diskMB: number };
  total: Sums;
  hours: (Sums & { timestampUnix: number })[];
}

const HOUR_S = 3600;

function Amount({ name, value, limit, show = count, more }: { name: string; value: number; limit: number | null; show?: (n: number) => string; more?: string }) {
  const words = limit === null ? 'no limit' : `of ${show(limit)}`;
  return <Figure name={name} value={show(value)} part={limit ? value / limit : undefined} more={more ? `${words}; ${more}` : words} />;
}

export function UsageView({ usage }: { usage: Usage }) {
  const { now, limits, measured, total } = usage;
  const hours = useMemo(() => [...usage.hours].sort((a, b) => a.timestampUnix - b.timestampUnix), [usage.hours]);
  const data = useMemo<[number[], number[], number[]]>(
    () => [hours.map((hour) => hour.timestampUnix), hours.map((hour) => hour.sandboxSeconds / HOUR_S), hours.map((hour) => hour.cpuSeconds / HOUR_S)],
    [hours],
  );
  return (
    <>
      <div class="figures">
        <Amount name="Sandboxes" value={now.sandboxes} limit={limits.sandboxes} more={now.pausedSandboxes ? `${count(now.pausedSandboxes)} paused` : undefined} />
        <Amount name="CPUs" value={now.cpus} limit={limits.cpus} more={`${measured.cpus.toFixed(1)} in use`} />
        <Amount name="Memory" value={now.memoryMB} limit={limits.memoryMB} show={megabytes} more={`${megabytes(measured.memoryMB)} in use`} />
        <Amount name="Disk" value={now.diskMB} limit={limits.diskMB} show={megabytes} />
        <Amount name="Builds" value={now.builds} limit={limits.builds} />
      </div>
      <div class="grid">
        <Card title="By the hour">
          {hours.length > 1 ? (
            <Chart
              label="Sandboxes and CPUs by the hour"
              data={data}
              series={[
                { label: 'sandboxes', color: '--accent' },
                { label: 'CPUs', color: '--info' },
              ]}
              format={(value) => value.toFixed(1)}
            />
          ) : (
            <EmptyState title="Not yet">A chart is drawn when there are figures of two hours.</EmptyState>
          )}
        </Card>
        <Card title="In that time">
          <Facts
            of={[
              ['Sandboxes ran', duration(total.sandboxSeconds)],
              ['CPU time', duration(total.cpuSeconds)],
              ['Memory', `${(total.memoryMBSeconds / 1024 / HOUR_S).toFixed(1)} GiB hours`],
              ['Disk', `${(total.diskMBSeconds / 1024 / HOUR_S).toFixed(1)} GiB hours`],
              ['Builds', `${count(total.builds)}, ${duration(total.buildSeconds)} in all`],
            ]}
          />
        </Card>
      </div>
    </>
  );
}
