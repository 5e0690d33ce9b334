// Requests to the daemon's API. A session's cookie is sent by the browser; the daemon takes it only
// together with the session's own token in X-Atoll-CSRF. Every error carries the daemon's sentence.

import { ApiError } from './api-error';
import { takeStream } from './streams';

export { ApiError };

/** The sentence to show for anything that was thrown. */
export function sentence(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  if (error instanceof TypeError) return 'The daemon does not answer. Is it running?';
  return error instanceof Error ? error.message : String(error);
}

export const isAbort = (error: unknown): boolean => error instanceof DOMException && error.name === 'AbortError';

type Hooks = { csrf: () => string | undefined; ended: () => void };
let hooks: Hooks = { csrf: () => undefined, ended: () => {} };

/** session.ts says where the token is and what happens when the session has ended. */
export function setHooks(next: Hooks): void {
  hooks = next;
}

export type Query = Record<string, string | number | boolean | undefined | null>;

export interface Options {
  body?: unknown;
  query?: Query;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** A 401 is an answer to show, not the end of the session. */
  keep401?: boolean;
}

export function address(path: string, query?: Query): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== '') search.set(name, String(value));
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

/** Sends a request; throws an ApiError unless the answer is 2xx. */
export async function send(method: string, path: string, options: Options = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  headers.set('Accept', headers.get('Accept') ?? 'application/json');
  const token = hooks.csrf();
  if (token) headers.set('X-Atoll-CSRF', token);
  let body: BodyInit | undefined;
  if (options.body instanceof Blob || options.body instanceof ArrayBuffer || typeof options.body === 'string') {
    body = options.body;
  } else if (options.body !== undefined) {
    headers.set('Content-Type', 'application/json');
    body = JSON.stringify(options.body);
  }
  const answer = await fetch(address(path, options.query), {
    method,
    headers,
    body,
    signal: options.signal,
    credentials: 'same-origin',
    cache: 'no-store',
    redirect: 'error',
  });
  if (answer.ok) return answer;
  const error = await errorOf(answer);
  if (answer.status === 401 && !options.keep401) hooks.ended();
  throw error;
}

/** The error that an answer tells of: `message` of its JSON body, or its status. */
export async function errorOf(answer: Response): Promise<ApiError> {
  const text = await answer.text().catch(() => '');
  try {
    const body: unknown = JSON.parse(text);
    if (body && typeof body === 'object' && 'message' in body && typeof body.message === 'string') {
      return new ApiError(answer.status, body.message);
    }
  } catch {
    // not JSON: the text itself, if it is a short one
  }
  const short = text.length > 0 && text.length < 300 && !text.startsWith('<') ? text : '';
  return new ApiError(answer.status, short || `The daemon answered ${answer.status} ${answer.statusText}`.trim());
}

async function json<T>(method: string, path: string, options?: Options): Promise<T> {
  const answer = await send(method, path, options);
  const text = await answer.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

export const get = <T>(path: string, query?: Query, options?: Options) => json<T>('GET', path, { ...options, query });
export const post = <T = void>(path: string, body?: unknown, options?: Options) => json<T>('POST', path, { ...options, body });
export const put = <T = void>(path: string, body?: unknown, options?: Options) => json<T>('PUT', path, { ...options, body });
export const patch = <T = void>(path: string, body?: unknown, options?: Options) => json<T>('PATCH', path, { ...options, body });
export const del = <T = void>(path: string, body?: unknown, options?: Options) => json<T>('DELETE', path, { ...options, body });

/** A path with its parts encoded: path`/sandboxes/${id}/logs`. */
export function path(parts: TemplateStringsArray, ...values: (string | number)[]): string {
  return parts.reduce((text, part, i) => text + encodeURIComponent(String(values[i - 1])) + part);
}

const PAGES_MAX = 1000; // a token that never ends must not keep the page asking forever

/** Each page of a list that continues with X-Next-Token. `name`: what the route calls it. */
export async function* pages<T>(route: string, query: Query = {}, options: Options = {}, name = 'nextToken'): AsyncGenerator<T[]> {
  let nextToken: string | undefined;
  for (let i = 0; i < PAGES_MAX; i++) {
    const answer = await send('GET', route, { ...options, query: { ...query, [name]: nextToken } });
    yield (await answer.json()) as T[];
    nextToken = answer.headers.get('X-Next-Token') ?? undefined;
    if (!nextToken) return;
  }
}

/** All entries of such a list. */
export async function all<T>(route: string, query?: Query, options?: Options): Promise<T[]> {
  const rows: T[] = [];
  for await (const page of pages<T>(route, query, options)) rows.push(...page);
  return rows;
}

/** The lines of a body, as they come. Empty lines keep a connection alive and are left out. */
export async function* lines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      const parts = rest.split('\n');
      rest = done ? '' : (parts.pop() ?? '');
      for (const part of parts) if (part.trim()) yield part;
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

export const sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });

const WAIT_FIRST_MS = 500;
const WAIT_MAX_MS = 15_000;

export interface Follow<T> {
  signal: AbortSignal;
  query?: () => Query;
  onLine: (line: T) => void;
  /** Connected, or not and trying again. */
  onState?: (live: boolean, why?: string) => void;
  /** True: the end of the body is the end of the story (a log of a sandbox that ended). */
  once?: boolean;
}

/** Follows a route that answers with a JSON value per line; connects again, waiting longer each time. */
export async function follow<T>(route: string, options: Follow<T>): Promise<void> {
  let wait = WAIT_FIRST_MS;
  while (!options.signal.aborted) {
    let why: string | undefined;
    let over = () => {};
    try {
      over = takeStream();
      const answer = await send('GET', route, {
        query: options.query?.(),
        signal: options.signal,
        headers: { Accept: 'application/x-ndjson' },
      });
      if (!answer.headers.get('Content-Type')?.includes('ndjson')) throw new ApiError(501, 'This route does not stream.');
      options.onState?.(true);
      wait = WAIT_FIRST_MS;
      for await (const line of lines(answer.body!)) options.onLine(JSON.parse(line) as T);
      if (options.once) return;
    } catch (error) {
      if (options.signal.aborted || isAbort(error)) return;
      why = sentence(error);
      if (error instanceof ApiError && [400, 401, 403, 404, 405, 501].includes(error.status)) {
        options.onState?.(false, why);
        throw error;
      }
    } finally {
      over();
    }
    options.onState?.(false, why);
    await sleep(wait * (0.75 + Math.random() / 2), options.signal);
    wait = Math.min(wait * 2, WAIT_MAX_MS);
  }
}
