// Reads the data of a chart as code sent it. It comes from a sandbox: whatever does not fit is no chart.
export interface Plot {
  type: 'line' | 'scatter' | 'bar';
  title: string;
  x: string;
  y: string;
  /** The x axis is time, in seconds. */
  time: boolean;
  /** The names along the x axis, of bars and categories. */
  names?: string[];
  data: (number | null)[][];
  series: { label: string }[];
}

const POINTS_MAX = 100_000;
const text = (value: unknown): string => (typeof value === 'string' ? value.slice(0, 200) : '');
const rows = (value: unknown): Record<string, unknown>[] =>
  Array.isArray(value) ? value.filter((row): row is Record<string, unknown> => row !== null && typeof row === 'object') : [];

function bars(chart: Record<string, unknown>, base: Omit<Plot, 'data' | 'series' | 'names'>): Plot | null {
  const all = rows(chart.elements).slice(0, 200);
  if (all.length === 0) return null;
  const names = [...new Set(all.map((bar) => text(String(bar.label))))];
  const groups = [...new Set(all.map((bar) => text(bar.group)))];
  const values = groups.map((group) =>
    names.map((name) => {
      const bar = all.find((one) => String(one.label) === name && text(one.group) === group);
      const value = Number(bar?.value);
      return bar && Number.isFinite(value) ? value : null;
    }),
  );
  return { ...base, names, data: [names.map((_, i) => i), ...values], series: groups.map((label) => ({ label })) };
}

function points(chart: Record<string, unknown>, base: Omit<Plot, 'data' | 'series' | 'names'>): Plot | null {
  const time = chart.x_scale === 'datetime';
  const lists = rows(chart.elements).map((element) => ({
    label: text(element.label),
    points: Array.isArray(element.points) ? (element.points as unknown[]).slice(0, POINTS_MAX) : [],
  }));
  const all = lists.flatMap((list) => list.points).filter((point): point is [unknown, unknown] => Array.isArray(point) && point.length >= 2);
  if (all.length === 0) return null;
  const words = chart.x_scale === 'categorical' || all.some(([x]) => typeof x === 'string' && !time && !Number.isFinite(Number(x)));
  const names = words ? [...new Set(all.map(([x]) => text(String(x))))] : undefined;
  const number = (x: unknown) => (names ? names.indexOf(text(String(x))) : time ? new Date(String(x)).getTime() / 1000 : Number(x));
  const xs = [...new Set(all.map(([x]) => number(x)))].filter(Number.isFinite).sort((a, b) => a - b);
  const index = new Map(xs.map((x, i) => [x, i]));
  const data = lists.map((list) => {
    const column: (number | null)[] = xs.map(() => null);
    for (const point of list.points) {
      if (!Array.isArray(point)) continue;
      const at = index.get(number(point[0]));
      const y = Number(point[1]);
      if (at !== undefined && Number.isFinite(y)) column[at] = y;
    }
    return column;
  });
  return { ...base, time, names, data: [xs, ...data], series: lists.map(({ label }) => ({ label })) };
}

/** What can be drawn of it, or null. */
export function plotOf(value: unknown): Plot | null {
  if (value === null || typeof value !== 'object') return null;
  const chart = value as Record<string, unknown>;
  const base = { title: text(chart.title), x: text(chart.x_label), y: text(chart.y_label), time: false };
  if (chart.type === 'bar') return bars(chart, { ...base, type: 'bar' });
  if (chart.type === 'line' || chart.type === 'scatter') return points(chart, { ...base, type: chart.type });
  return null;
}
