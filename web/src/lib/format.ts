// Numbers and times as people read them. `now` ticks each second for ages that go on by themselves.
import { signal } from '@preact/signals';

export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);

const STEPS: [number, string][] = [
  [86400, 'd'],
  [3600, 'h'],
  [60, 'm'],
  [1, 's'],
];

/** 93784 s: "1d 2h". Two units at most. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return '–';
  if (seconds < 0) return '0s';
  if (seconds > 0 && seconds < 1) return `${Math.round(seconds * 1000)}ms`;
  let rest = Math.floor(seconds);
  const parts: string[] = [];
  for (const [size, unit] of STEPS) {
    if (rest < size && !(unit === 's' && parts.length === 0)) {
      if (parts.length) break;
      continue;
    }
    parts.push(`${Math.floor(rest / size)}${unit}`);
    rest %= size;
    if (parts.length === 2) break;
  }
  return parts.join(' ');
}

type Time = string | number | Date | null | undefined;
const ms = (time: Time): number => (time === null || time === undefined ? NaN : new Date(time).getTime());

/** How long ago. Read inside a component, it goes on by itself. */
export const age = (time: Time): string => duration(Math.floor((now.value - ms(time)) / 1000));
/** How long until then; "now" when it is over. */
export function left(time: Time): string {
  const seconds = (ms(time) - now.value) / 1000;
  return Number.isNaN(seconds) ? '–' : seconds <= 0 ? 'now' : duration(seconds);
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium', hour12: false });

export const time = (value: Time): string => (Number.isNaN(ms(value)) ? '–' : clock.format(ms(value)));
export const dateTime = (value: Time): string => (Number.isNaN(ms(value)) ? '–' : full.format(ms(value)));

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit++;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${UNITS[unit]}`;
}

export const megabytes = (value: number | null | undefined): string => bytes(value == null ? null : value * 1024 * 1024);

const plain = new Intl.NumberFormat('en');
export const count = (value: number | null | undefined): string => (value == null ? '–' : plain.format(value));
export const percent = (value: number | null | undefined, digits = 0): string =>
  value == null || !Number.isFinite(value) ? '–' : `${value.toFixed(digits)} %`;
export const millis = (value: number | null | undefined): string =>
  value == null || !Number.isFinite(value) ? '–' : value >= 1000 ? `${(value / 1000).toFixed(1)} s` : `${Math.round(value)} ms`;
/** "1 sandbox", "2 sandboxes". */
export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;
