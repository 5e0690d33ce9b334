// Limits of a team or a key. null: no limit.
export interface Limits {
  sandboxes: number | null;
  cpus: number | null;
  memoryMB: number | null;
  diskMB: number | null;
  builds: number | null;
}

export type Amounts = { [K in keyof Limits]: number };

export const LIMITS: [keyof Limits, string][] = [
  ['sandboxes', 'Sandboxes'],
  ['cpus', 'CPUs'],
  ['memoryMB', 'Memory, MB'],
  ['diskMB', 'Disk, MB'],
  ['builds', 'Builds'],
];

export type LimitTexts = Record<keyof Limits, string>;

export const toTexts = (limits?: Limits): LimitTexts =>
  Object.fromEntries(LIMITS.map(([name]) => [name, limits?.[name] === null || limits?.[name] === undefined ? '' : String(limits[name])])) as LimitTexts;

/** An empty field is no limit. */
export const fromTexts = (texts: LimitTexts): Limits =>
  Object.fromEntries(LIMITS.map(([name]) => [name, texts[name].trim() === '' ? null : Number(texts[name])])) as unknown as Limits;

export const hasLimits = (limits: Limits | undefined): boolean => limits !== undefined && LIMITS.some(([name]) => limits[name] !== null && limits[name] !== undefined);
