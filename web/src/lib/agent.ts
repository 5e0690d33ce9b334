// Requests into a sandbox. The daemon leads them there by headers that no link and no form can
// send, so nothing of a sandbox becomes a document of this origin. The session's cookie stays out
// of them: the agent knows the sandbox's own token.
import { ApiError, address, errorOf, get, path, type Query } from './api';
import { takeStream } from './streams';

export const AGENT_PORT = 49983;

export interface Detail {
  sandboxID: string;
  templateID: string;
  alias?: string;
  state: 'running' | 'paused';
  /** When it was made; an older daemon does not say so. */
  createdAt?: string;
  /** When it was made or last resumed. */
  startedAt: string;
  endAt: string;
  cpuCount: number;
  memoryMB: number;
  diskSizeMB: number;
  metadata?: Record<string, string>;
  envdVersion: string;
  envdAccessToken?: string;
  trafficAccessToken?: string;
  allowInternetAccess?: boolean;
  domain?: string | null;
  network?: Record<string, unknown>;
  lifecycle?: { autoResume?: unknown; onTimeout?: string };
}

export interface AgentOptions {
  signal?: AbortSignal;
  query?: Query;
  headers?: Record<string, string>;
  port?: number;
}

const STATUS_OF_CODE: Record<string, number> = {
  canceled: 499,
  invalid_argument: 400,
  unauthenticated: 401,
  permission_denied: 403,
  not_found: 404,
  already_exists: 409,
  resource_exhausted: 429,
  deadline_exceeded: 504,
  unimplemented: 501,
  unavailable: 503,
};

const FLAG_END = 0x02;
const HEAD_BYTES = 5;
const ENVELOPE_BYTES_MAX = 64 * 1024 * 1024; // a sandbox may claim any length

export class Agent {
  constructor(
    readonly id: string,
    readonly token?: string,
    readonly trafficToken?: string,
  ) {}

  static of(detail: Detail): Agent {
    return new Agent(detail.sandboxID, detail.envdAccessToken, detail.trafficAccessToken);
  }

  static async open(id: string): Promise<Agent> {
    return Agent.of(await get<Detail>(path`/sandboxes/${id}`));
  }

  private headers(options: AgentOptions): Headers {
    const headers = new Headers(options.headers);
    headers.set('E2b-Sandbox-Id', this.id);
    headers.set('E2b-Sandbox-Port', String(options.port ?? AGENT_PORT));
    headers.set('X-Atoll-CSRF', 'agent'); // the daemon then takes these headers at every name it has
    if (this.token) headers.set('X-Access-Token', this.token);
    if (this.trafficToken) headers.set('E2B-Traffic-Access-Token', this.trafficToken);
    return headers;
  }

  /** Any request to the agent, or to another port. Throws an ApiError unless the answer is 2xx. */
  async send(method: string, route: string, body?: BodyInit, options: AgentOptions = {}): Promise<Response> {
    const answer = await fetch(address(route, options.query), {
      method,
      body,
      headers: this.headers(options),
      signal: options.signal,
      credentials: 'omit',
      cache: 'no-store',
      redirect: 'error',
    });
    if (!answer.ok) throw await errorOf(answer);
    return answer;
  }

  async json<T>(method: string, route: string, body?: unknown, options: AgentOptions = {}): Promise<T> {
    const headers = { ...options.headers, 'Content-Type': 'application/json' };
    const text = body === undefined ? undefined : JSON.stringify(body);
    const answer = await this.send(method, route, text, { ...options, headers });
    const reply = await answer.text();
    return (reply ? JSON.parse(reply) : undefined) as T;
  }

  /** One call of the Connect protocol: unary('filesystem.Filesystem/ListDir', {path: '/'}). */
  async unary<T>(method: string, message: unknown, options: AgentOptions = {}): Promise<T> {
    const headers = { ...basic(options), 'Connect-Protocol-Version': '1' };
    return await this.json<T>('POST', `/${method}`, message, { ...options, headers });
  }

  /** A call that is answered by a stream of messages. It ends with the stream, or throws its error. */
  async *stream<T>(method: string, message: unknown, options: AgentOptions = {}): AsyncGenerator<T> {
    const headers = {
      ...basic(options),
      'Connect-Protocol-Version': '1',
      'Content-Type': 'application/connect+json',
    };
    const over = takeStream();
    try {
      const answer = await this.send('POST', `/${method}`, envelope(message), { ...options, headers });
      for await (const { flags, text } of envelopes(answer.body!)) {
        if (flags & FLAG_END) {
          const end = JSON.parse(text || '{}') as { error?: { code?: string; message?: string } };
          if (end.error) throw connectError(end.error);
          return;
        }
        yield JSON.parse(text) as T;
      }
    } finally {
      over();
    }
  }

  /** The contents of a file. */
  read(file: string, user?: string, signal?: AbortSignal): Promise<Response> {
    return this.send('GET', '/files', undefined, { query: { path: file, username: user }, signal });
  }

  /** Writes a file whole. */
  async write(file: string, content: Blob | string, user?: string): Promise<void> {
    const form = new FormData();
    form.append('file', content instanceof Blob ? content : new Blob([content]), file.split('/').pop() || 'file');
    await this.send('POST', '/files', form, { query: { path: file, username: user } });
  }
}

/** The agent runs a call as this user: Basic with an empty password, as the SDKs say it. */
export const asUser = (user: string): Record<string, string> => ({ Authorization: `Basic ${btoa(`${user}:`)}` });

const basic = (options: AgentOptions) => ({ ...asUser('user'), ...options.headers });

function connectError(error: { code?: string; message?: string }): ApiError {
  return new ApiError(STATUS_OF_CODE[error.code ?? ''] ?? 500, error.message || error.code || 'The agent failed.');
}

function envelope(message: unknown): ArrayBuffer {
  const text = new TextEncoder().encode(JSON.stringify(message));
  const bytes = new Uint8Array(HEAD_BYTES + text.length);
  new DataView(bytes.buffer).setUint32(1, text.length);
  bytes.set(text, HEAD_BYTES);
  return bytes.buffer;
}

async function* envelopes(body: ReadableStream<Uint8Array>): AsyncGenerator<{ flags: number; text: string }> {
  const reader = body.getReader();
  let have: Uint8Array = new Uint8Array(0);
  try {
    for (;;) {
      while (have.length >= HEAD_BYTES) {
        const length = new DataView(have.buffer, have.byteOffset).getUint32(1);
        if (length > ENVELOPE_BYTES_MAX) throw new ApiError(502, 'The sandbox sent a message that is too long.');
        if (have.length < HEAD_BYTES + length) break;
        const text = new TextDecoder().decode(have.subarray(HEAD_BYTES, HEAD_BYTES + length));
        yield { flags: have[0]!, text };
        have = have.subarray(HEAD_BYTES + length);
      }
      const { done, value } = await reader.read();
      if (done) throw new ApiError(502, 'The connection to the sandbox ended.');
      const next = new Uint8Array(have.length + value.length);
      next.set(have);
      next.set(value, have.length);
      have = next;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Bytes of a message, which JSON carries as base64. */
export function fromBase64(text: string): Uint8Array {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

export function toBase64(bytes: Uint8Array): string {
  let raw = '';
  for (let i = 0; i < bytes.length; i += 0x8000) raw += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(raw);
}
