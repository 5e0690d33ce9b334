// The log of a sandbox: the newest lines first come, then all that follows.
import { useEffect, useRef, useState } from 'preact/hooks';
import { follow, get, isAbort, path, sentence } from '../../lib/api';
import { Button, EmptyState, ErrorNote, Note, Spinner } from '../../ui/basics';
import { LogView, type LogLine } from '../../ui/log';
import type { Box } from './box';
import { shownName } from './files/tree';

interface Entry {
  timestamp: string;
  level: string;
  message: string;
  fields?: Record<string, string>;
}

const PAGE_LINES = 1000;
const KEPT_LINES = 50_000;
const DRAW_MS = 100;
const LEVELS = ['debug', 'info', 'warn', 'error'];

/* Fields that only repeat what the page shows anyway. */
const HIDDEN = new Set(['sandboxID', 'sandbox_id', 'timestamp', 'level', 'message', 'logger', 'service', 'event_type']);

function lineOf(entry: Entry): LogLine {
  const fields = Object.entries(entry.fields ?? {}).filter(([name]) => !HIDDEN.has(name));
  const more = fields.map(([name, value]) => `${name}=${value}`).join(' ');
  // A line stays one line.
  const text = shownName((more ? `${entry.message}  ${more}` : entry.message).replace(/\s*\n\s*/g, ' ⏎ '));
  return { at: entry.timestamp, level: entry.level, text };
}

const keyOf = (entry: Entry) => `${entry.timestamp} ${entry.level} ${entry.message}`;

export default function LogsTab({ box }: { box: Box }) {
  const [level, setLevel] = useState('debug');
  const [entries, setEntries] = useState<Entry[] | null>(null);
  const [older, setOlder] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const route = path`/v2/sandboxes/${box.id}/logs`;
  const stop = useRef<AbortController | null>(null);

  const page = async (cursor: number, signal?: AbortSignal) => {
    const query = { direction: 'backward', limit: PAGE_LINES, cursor, level };
    return (await get<{ logs: Entry[] }>(route, query, { signal })).logs.reverse();
  };

  /* The stream begins with the last line that is there: that one comes twice and is left out. */
  const stream = async (first: Entry[], signal: AbortSignal) => {
    const last = first[first.length - 1];
    let from = last ? new Date(last.timestamp).getTime() : 0;
    let seen = new Set(first.filter((entry) => new Date(entry.timestamp).getTime() === from).map(keyOf));
    let fresh: Entry[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = () => {
      timer = undefined;
      const some = fresh;
      fresh = [];
      setEntries((now) => [...(now ?? []), ...some].slice(-KEPT_LINES));
    };
    await follow<Entry>(route, {
      signal,
      query: () => ({ follow: true, cursor: from, level }),
      once: box.state.value === 'gone',
      onState: (live, why) => setError(live ? null : (why ?? null)),
      onLine: (entry) => {
        if (!entry.timestamp || seen.has(keyOf(entry))) return;
        const at = new Date(entry.timestamp).getTime();
        if (at !== from) seen = new Set();
        from = at;
        seen.add(keyOf(entry));
        fresh.push(entry);
        timer ??= setTimeout(show, DRAW_MS);
      },
    });
  };

  useEffect(() => {
    stop.current?.abort();
    const mine = (stop.current = new AbortController());
    setEntries(null);
    setError(null);
    const run = async () => {
      const first = await page(Date.now() + 60_000, mine.signal);
      if (mine.signal.aborted) return;
      setEntries(first);
      setOlder(first.length >= PAGE_LINES);
      await stream(first, mine.signal);
    };
    run().catch((thrown) => !isAbort(thrown) && !mine.signal.aborted && setError(sentence(thrown)));
    return () => mine.abort();
  }, [level, box.id, box.state.value === 'running']);

  const more = async () => {
    const first = entries?.[0];
    if (!first) return;
    setBusy(true);
    try {
      const known = new Set(entries!.slice(0, PAGE_LINES).map(keyOf));
      const before = (await page(new Date(first.timestamp).getTime())).filter((entry) => !known.has(keyOf(entry)));
      setEntries([...before, ...entries!]);
      setOlder(before.length > 0);
    } catch (thrown) {
      setError(sentence(thrown));
    }
    setBusy(false);
  };

  if (!entries) return error ? <ErrorNote error={error} /> : <Spinner label="Reading the log" />;
  return (
    <>
      {error && <Note tone={box.state.value === 'gone' ? 'info' : 'bad'}>{error}</Note>}
      <LogView
        label="Log of the sandbox"
        lines={entries.map(lineOf)}
        live={box.state.value === 'running'}
        bar={
          <>
            <select class="input" aria-label="The lowest level" value={level} onChange={(event) => setLevel(event.currentTarget.value)}>
              {LEVELS.map((name) => (
                <option value={name}>{name === 'debug' ? 'Every level' : `${name} and above`}</option>
              ))}
            </select>
            {older && (
              <Button small icon="up" busy={busy} onClick={more}>
                Older lines
              </Button>
            )}
          </>
        }
        empty={
          <EmptyState title="No lines" line={`atoll logs ${box.id} --follow`}>
            Commands that start and end, and refused connections, come here by themselves. On the command line:
          </EmptyState>
        }
      />
    </>
  );
}
