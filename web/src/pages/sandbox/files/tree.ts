// The directories of a sandbox that are open, read when they are opened and again when a watch tells
// of a change.
import { signal } from '@preact/signals';
import { asUser } from '../../../lib/agent';
import { ApiError, isAbort, sentence, sleep } from '../../../lib/api';
import type { Box } from '../box';

export interface Entry {
  name: string;
  path: string;
  type?: 'FILE_TYPE_FILE' | 'FILE_TYPE_DIRECTORY' | string;
  size?: string | number;
  permissions?: string;
  owner?: string;
  group?: string;
  modifiedTime?: string;
  symlinkTarget?: string;
}

export interface Row {
  entry: Entry;
  depth: number;
  open: boolean;
  /** What to say in place of what is inside. */
  note?: string;
}

interface Directory {
  entries: Entry[];
  error?: string;
}

const READ_AGAIN_MS = 250; // many changes at once are one reading
const WATCH_AGAIN_MS = 3000;

export const isDirectory = (entry: Entry) => entry.type === 'FILE_TYPE_DIRECTORY';
export const parentOf = (file: string) => file.slice(0, Math.max(1, file.lastIndexOf('/'))) || '/';
export const nameOf = (file: string) => file.slice(file.lastIndexOf('/') + 1);
export const join = (directory: string, name: string) => (directory === '/' ? `/${name}` : `${directory}/${name}`);

const byKind = (a: Entry, b: Entry) => Number(isDirectory(b)) - Number(isDirectory(a)) || (a.name < b.name ? -1 : 1);

/** A name with what would hide or reverse parts of it made visible. */
export function shownName(name: string): string {
  return name.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`);
}

export class Tree {
  readonly root = signal('/home/user');
  readonly rows = signal<Row[]>([]);
  readonly error = signal<string | null>(null);
  readonly loading = signal(true);
  /** The path that changed last, with a number: the same file may change twice. */
  readonly changed = signal<{ path: string; n: number }>({ path: '', n: 0 });
  readonly user = signal('user');
  private readonly read = new Map<string, Directory>();
  private readonly open = new Set<string>();
  private watching: AbortController | null = null;
  private readonly stale = new Set<string>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly box: Box) {}

  headers() {
    return asUser(this.user.value);
  }

  call<T>(method: string, message: unknown): Promise<T> {
    return this.box.agent().unary<T>(`filesystem.Filesystem/${method}`, message, { headers: this.headers(), signal: this.box.leave });
  }

  private draw(): void {
    const rows: Row[] = [];
    const walk = (directory: string, depth: number) => {
      for (const entry of this.read.get(directory)?.entries ?? []) {
        const open = isDirectory(entry) && this.open.has(entry.path);
        const inside = open ? this.read.get(entry.path) : undefined;
        const note = inside?.error ?? (open && !inside ? 'Reading …' : undefined);
        rows.push({ entry, depth, open, note });
        if (open && inside && depth < 64) walk(entry.path, depth + 1);
      }
    };
    walk(this.root.value, 0);
    this.rows.value = rows;
  }

  private async list(directory: string): Promise<void> {
    try {
      const answer = await this.call<{ entries?: Entry[] }>('ListDir', { path: directory, depth: 1 });
      // What is inside stands where it was opened, also behind a link.
      const entries = (answer.entries ?? []).map((entry) => ({ ...entry, path: join(directory, entry.name) }));
      this.read.set(directory, { entries: entries.sort(byKind) });
      if (directory === this.root.value) this.error.value = null;
    } catch (error) {
      if (isAbort(error)) return;
      if (error instanceof ApiError && error.status === 404) this.open.delete(directory);
      this.read.set(directory, { entries: [], error: sentence(error) });
      if (directory === this.root.value) this.error.value = sentence(error);
    }
  }

  async goTo(root: string): Promise<void> {
    this.root.value = root;
    this.loading.value = true;
    this.rows.value = [];
    await this.list(root);
    this.loading.value = false;
    this.draw();
    void this.watch();
  }

  async toggle(entry: Entry, on = !this.open.has(entry.path)): Promise<void> {
    if (!isDirectory(entry)) return;
    if (!on) {
      this.open.delete(entry.path);
      return this.draw();
    }
    this.open.add(entry.path);
    this.draw();
    await this.list(entry.path);
    this.draw();
  }

  /** Reads the directories again, soon. */
  refresh(...directories: string[]): void {
    directories.forEach((directory) => this.stale.add(directory));
    this.timer ??= setTimeout(async () => {
      this.timer = undefined;
      const due = [...this.stale].filter((directory) => directory === this.root.value || this.open.has(directory));
      this.stale.clear();
      await Promise.all(due.map((directory) => this.list(directory)));
      this.draw();
    }, READ_AGAIN_MS);
  }

  refreshAll(): void {
    this.refresh(this.root.value, ...this.open);
  }

  /* One stream for all that is below the root. The root of the system has too much below it. */
  private async watch(): Promise<void> {
    this.watching?.abort();
    const stop = (this.watching = new AbortController());
    const root = this.root.value;
    const recursive = root !== '/';
    type Message = { start?: object; filesystem?: { name: string; type: string } };
    while (!stop.signal.aborted) {
      try {
        const events = this.box
          .agent()
          .stream<Message>('filesystem.Filesystem/WatchDir', { path: root, recursive }, { signal: stop.signal, headers: this.headers() });
        for await (const message of events) {
          if (message.start) this.refreshAll();
          if (message.filesystem) this.noticed(join(root, message.filesystem.name));
        }
      } catch (error) {
        if (stop.signal.aborted) return;
        if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429) return;
      }
      await sleep(WATCH_AGAIN_MS, stop.signal);
    }
  }

  private noticed(path: string): void {
    this.refresh(parentOf(path));
    this.changed.value = { path, n: this.changed.value.n + 1 };
  }

  stop(): void {
    this.watching?.abort();
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}
