// Volumes and their files. The routes of the content take the volume's own token and nothing else;
// the session's cookie stays out of them.
import { address, errorOf, get, path, type Query } from './api';

export interface Volume {
  volumeID: string;
  name: string;
}

export interface VolumeEntry {
  name: string;
  type: 'unknown' | 'file' | 'directory' | 'symlink';
  path: string;
  size: number;
  mode: number;
  uid: number;
  gid: number;
  mtime: string;
  target?: string;
}

const USER = 1000; // who programs in a sandbox run as

export class VolumeFiles {
  constructor(
    readonly id: string,
    readonly name: string,
    private readonly token: string | undefined,
  ) {}

  static async open(id: string, signal?: AbortSignal): Promise<VolumeFiles> {
    const volume = await get<Volume & { token?: string }>(path`/volumes/${id}`, undefined, { signal });
    return new VolumeFiles(volume.volumeID, volume.name, volume.token);
  }

  /** A key that may only read gets no token: with it, files could be written. */
  get readable(): boolean {
    return this.token !== undefined;
  }

  private async send(method: string, what: string, query: Query, body?: Blob, signal?: AbortSignal): Promise<Response> {
    const answer = await fetch(address(`/volumecontent/${encodeURIComponent(this.id)}/${what}`, query), {
      method,
      body,
      signal,
      headers: { Authorization: `Bearer ${this.token}` },
      credentials: 'omit',
      cache: 'no-store',
      redirect: 'error',
    });
    if (!answer.ok) throw await errorOf(answer);
    return answer;
  }

  async list(dir: string, signal?: AbortSignal): Promise<VolumeEntry[]> {
    return (await this.send('GET', 'dir', { path: dir, depth: 1 }, undefined, signal)).json();
  }

  async read(file: string): Promise<Blob> {
    return (await this.send('GET', 'file', { path: file })).blob();
  }

  async write(file: string, content: Blob): Promise<void> {
    await this.send('PUT', 'file', { path: file, uid: USER, gid: USER, force: true }, content);
  }

  async makeDir(dir: string): Promise<void> {
    await this.send('POST', 'dir', { path: dir, uid: USER, gid: USER });
  }

  async remove(what: string): Promise<void> {
    await this.send('DELETE', 'path', { path: what });
  }
}
