// What happened to a sandbox, and why.
import { useEffect, useState } from 'preact/hooks';
import { get, path, sentence } from '../../lib/api';
import { onEvent, onReconnect, type SandboxEvent } from '../../lib/events';
import { age, dateTime, duration } from '../../lib/format';
import { Button, EmptyState, ErrorNote, Spinner } from '../../ui/basics';
import { Icon, type IconName } from '../../ui/icons';
import { JsonView } from '../../ui/json';
import type { Box } from './box';

const PAGE = 100;

interface Kind {
  icon: IconName;
  tone: string;
  title: string;
}

const KINDS: Record<string, Kind> = {
  'sandbox.lifecycle.created': { icon: 'plus', tone: 'ok', title: 'Created' },
  'sandbox.lifecycle.updated': { icon: 'clock', tone: '', title: 'Its time was changed' },
  'sandbox.lifecycle.paused': { icon: 'pause', tone: 'info', title: 'Paused' },
  'sandbox.lifecycle.resumed': { icon: 'play', tone: 'ok', title: 'Resumed' },
  'sandbox.lifecycle.snapshotted': { icon: 'snapshots', tone: 'info', title: 'A snapshot was made' },
  'sandbox.lifecycle.checkpointed': { icon: 'snapshots', tone: 'info', title: 'A snapshot was made' },
  'sandbox.lifecycle.forked': { icon: 'fork', tone: 'info', title: 'Forked' },
  'sandbox.lifecycle.killed': { icon: 'stop', tone: 'bad', title: 'Ended' },
  'sandbox.shell.called': { icon: 'network', tone: '', title: 'An API shell was called' },
};

type Data = Record<string, unknown>;
const text = (value: unknown): string | undefined => (typeof value === 'string' && value ? value : undefined);

function Why({ event }: { event: SandboxEvent }) {
  const data = (event.eventData ?? {}) as Data;
  const reason = text(data.kill_reason) ?? text(data.pause_reason) ?? text(data.reason);
  const origin = text(data.fork_of);
  const copy = text(data.fork_id);
  const run = data.execution as Data | undefined;
  const seconds = Number(run?.execution_time ?? run?.duration_ms) / 1000;
  return (
    <span class="muted">
      {reason && <>: {reason}</>}
      {origin && (
        <>
          {' '}
          as a fork of{' '}
          <a class="mono" href={`#/sandboxes/${encodeURIComponent(origin)}/family`}>
            {origin}
          </a>
        </>
      )}
      {copy && (
        <>
          : the copy is{' '}
          <a class="mono" href={`#/sandboxes/${encodeURIComponent(copy)}/family`}>
            {copy}
          </a>
        </>
      )}
      {Number.isFinite(seconds) && seconds > 0 && <>, after it ran for {duration(seconds)}</>}
    </span>
  );
}

function Item({ event }: { event: SandboxEvent }) {
  const [open, setOpen] = useState(false);
  const kind = KINDS[event.type] ?? { icon: 'info' as IconName, tone: '', title: event.type };
  return (
    <li class={`moment ${kind.tone}`}>
      <span class="mark">
        <Icon name={kind.icon} />
      </span>
      <div class="grow">
        <div class="row wrap">
          <span>
            <strong>{kind.title}</strong>
            <Why event={event} />
          </span>
          <span class="grow" />
          <time class="muted small" dateTime={event.timestamp} title={`${age(event.timestamp)} ago`}>
            {dateTime(event.timestamp)}
          </time>
          <Button kind="quiet" small icon={open ? 'up' : 'down'} label={open ? 'Hide the event' : 'Show the event'} aria-expanded={open} onClick={() => setOpen(!open)} />
        </div>
        {open && <JsonView value={event} label="The event" />}
      </div>
    </li>
  );
}

export default function EventsTab({ box }: { box: Box }) {
  const [events, setEvents] = useState<SandboxEvent[] | null>(null);
  const [more, setMore] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const route = path`/events/sandboxes/${box.id}`;
  const load = async (offset: number) => {
    try {
      const page = await get<SandboxEvent[]>(route, { limit: PAGE, offset });
      setEvents((now) => (offset ? [...(now ?? []), ...page.filter((event) => !now?.some((old) => old.id === event.id))] : page));
      setMore(page.length === PAGE);
      setError(null);
    } catch (thrown) {
      setError(sentence(thrown));
    }
  };
  useEffect(() => {
    void load(0);
    const ends = [
      onEvent((event) => event.sandboxId === box.id && setEvents((now) => [event, ...(now ?? []).filter((old) => old.id !== event.id)])),
      onReconnect(() => void load(0)),
    ];
    return () => ends.forEach((end) => end());
  }, [box.id]);
  if (!events) return error ? <ErrorNote error={error} /> : <Spinner label="Asking for the events" />;
  return (
    <div class="scroll-panel">
      <ErrorNote error={error} />
      {events.length === 0 ? (
        <EmptyState title="No events" line={`atoll events ${box.id}`}>
          Events are kept for seven days. On the command line:
        </EmptyState>
      ) : (
        <ol class="timeline" aria-label="Events, the newest first">
          {events.map((event) => (
            <Item key={event.id} event={event} />
          ))}
        </ol>
      )}
      {more && (
        <div>
          <Button icon="down" onClick={() => load(events.length)}>
            Older events
          </Button>
        </div>
      )}
    </div>
  );
}
