// Templates and their builds, as the API has them.
import { get, path, post, type Options } from './api';
import { session } from './session';

export interface Template {
  templateID: string;
  public: boolean;
  names?: string[];
  aliases?: string[];
  createdAt: string;
  updatedAt: string;
  lastSpawnedAt?: string | null;
  spawnCount?: number;
  buildID?: string;
  cpuCount?: number | null;
  memoryMB?: number | null;
  diskSizeMB?: number | null;
  diskUsedBytes?: number;
  buildCount?: number;
  buildStatus?: string;
  isDefault?: boolean;
  envdVersion?: string | null;
}

export interface Build {
  buildID: string;
  status: string;
  createdAt: string;
  updatedAt?: string;
  finishedAt?: string;
  cpuCount?: number;
  memoryMB?: number;
  diskSizeMB?: number;
  diskUsedBytes?: number;
}

export interface BuildEntry {
  timestamp: string;
  level: string;
  message: string;
  step?: string;
}

export interface BuildStatus {
  templateID: string;
  buildID: string;
  status: string;
  logEntries: BuildEntry[];
  queuePosition?: number;
  reason?: { message: string; step?: string };
}

/** What people call it. */
export const nameOf = (template: Template): string => template.names?.[0] ?? template.aliases?.[0] ?? template.templateID;
/** Its name without the namespace. */
export const shortName = (template: Template): string => template.aliases?.[0] ?? template.templateID;

export const isBuilding = (status: string | undefined): boolean => status === 'building' || status === 'waiting';

export const listTemplates = (signal?: AbortSignal) => get<Template[]>('/templates', undefined, { signal });

export const buildStatus = (id: string, build: string, logsOffset: number, options?: Options) =>
  get<BuildStatus>(path`/templates/${id}/builds/${build}/status`, { logsOffset, limit: 100 }, options);

export interface Tag {
  tag: string;
  buildID: string;
  createdAt: string;
}

export const listTags = (id: string, signal?: AbortSignal) => get<Tag[]>(path`/templates/${id}/tags`, undefined, { signal });

export interface NewBuild {
  name: string;
  cpuCount?: number;
  memoryMB?: number;
  tags?: string[];
}

export const requestBuild = (body: NewBuild) => post<{ templateID: string; buildID: string }>('/v3/templates', body);
export const startBuild = (id: string, build: string, body: unknown) => post(path`/v2/templates/${id}/builds/${build}`, body);

const kept = (name: string) => `atoll.dockerfile.${session.value?.team.id ?? ''}.${name}`;

export interface Kept {
  text: string;
  start?: string;
  ready?: string;
  cpus?: number;
  memory?: number;
}

/** The daemon keeps no Dockerfile. The last one of a name stays in this browser, to build it again. */
export function keepDockerfile(name: string, value: Kept): void {
  try {
    localStorage.setItem(kept(name), JSON.stringify(value));
  } catch {
    // a browser that keeps nothing, or has no room
  }
}

export function keptDockerfile(name: string): Kept | null {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(kept(name)) ?? 'null');
    return value && typeof value === 'object' && 'text' in value && typeof value.text === 'string' ? (value as Kept) : null;
  } catch {
    return null;
  }
}
