// Who did what to which object, and when. It is followed as it is written.
import { useEffect, useRef, useState } from 'preact/hooks';
import { follow, pages, sentence, type Query } from '../lib/api';
import { count, dateTime, millis } from '../lib/format';
import { isOperator } from '../lib/session';
import { Badge, Button, CopyLine, EmptyState, ErrorNote, Facts, PageHead, SearchField, Spinner } from '../ui/basics';
import { Dialog } from '../ui/dialog';
import { Table, type Column } from '../ui/table';

interface AuditRow {
  seq: number;
  time: string;
  team?: string | null;
  actor: { type: 'key' | 'admin' | 'token'; id?: string | null; name?: string | null };
  source?: string | null;
  via: string;
  action: string;
  object?: string | null;
  parent?: string | null;
  made?: string[] | null;
  status?: number | null;
  error?: string | null;
  durationMs?: number | null;
}

const ROWS_MAX = 10_000;
const PAGE_ROWS = 1000;
const TYPING_MS = 400;
const TIMES: [number, string][] = [
  [3600_000, 'the last hour'],
  [24 * 3600_000, 'the last day'],
  [7 * 24 * 3600_000, 'the last week'],
  [0, 'all that is kept'],
];

function outcome(row: AuditRow): { text: string; tone?: 'ok' | 'bad' | 'warn' | 'info' } {
  if (row.status === null || row.status === undefined) return { text: 'under way', tone: 'info' };
  if (row.status === 0) return { text: 'cut off', tone: 'warn' };
  if (row.status === 499) return { text: 'client left', tone: 'warn' };
  return { text: String(row.status), tone: row.status < 400 ? 'ok' : row.status < 500 ? 'warn' : 'bad' };
}

const actorOf = (row: AuditRow) => row.actor.name || row.actor.id || row.actor.type;

const columns: Column<AuditRow>[] = [
  { id: 'time', header: 'Time', value: (row) => row.seq, cell: (row) => <span class="num">{dateTime(row.time)}</span>, width: '172px', searched: false },
  {
    id: 'actor',
    header: 'Who',
    value: (row) => `${actorOf(row)} ${row.actor.type}`,
    cell: (row) => (
      <>
        {actorOf(row)} {row.actor.type !== 'key' && <Badge tone="info">{row.actor.type}</Badge>}
      </>
    ),
    width: 'minmax(100px, 1fr)',
  },
  { id: 'action', header: 'Did', value: (row) => row.action, cell: (row) => <span class="tag">{row.action}</span>, width: 'minmax(145px, 1fr)' },
  {
    id: 'object',
    header: 'To',
    value: (row) => [row.object, row.parent, ...(row.made ?? [])].filter(Boolean).join(' '),
    cell: (row) => <span class="mono">{row.object ?? row.made?.[0] ?? '–'}</span>,
    width: 'minmax(178px, 1.2fr)',
  },
  { id: 'via', header: 'By', value: (row) => row.via, width: '92px' },
  { id: 'source', header: 'From', value: (row) => row.source, width: '105px' },
  {
    id: 'status',
    header: 'Outcome',
    value: (row) => row.status,
    cell: (row) => <Badge tone={outcome(row).tone}>{outcome(row).text}</Badge>,
    width: '86px',
  },
  { id: 'error', header: 'Why not', value: (row) => row.error, cell: (row) => row.error && <span title={row.error}>{row.error}</span>, width: 'minmax(120px, 1.5fr)' },
];

function Detail({ row, onClose }: { row: AuditRow; onClose: () => void }) {
  return (
    <Dialog title={row.action} onClose={onClose}>
      <Facts
        of={[
          ['When', dateTime(row.time)],
          ['Who', `${actorOf(row)} (${row.actor.type})`],
          ['Id of the key', row.actor.id && <span class="mono">{row.actor.id}</span>],
          ['Object', row.object && <span class="mono">{row.object}</span>],
          ['Part of', row.parent && <span class="mono">{row.parent}</span>],
          ['Made', row.made?.length ? <span class="mono">{row.made.join(', ')}</span> : undefined],
          ['Team', row.team && <span class="mono">{row.team}</span>],
          ['By', row.via],
          ['From', row.source],
          ['Outcome', <Badge tone={outcome(row).tone}>{outcome(row).text}</Badge>],
          ['Why not', row.error && <span class="bad-text">{row.error}</span>],
          ['Took', row.durationMs == null ? undefined : millis(row.durationMs)],
        ]}
      />
    </Dialog>
  );
}

interface Filter {
  span: number;
  action: string;
  everybody: boolean;
}

/* The pages that there are, newest first, then what is written from now on. */
function useAudit(filter: Filter) {
  const [rows, setRows] = useState<AuditRow[]>([]);
  const [error, setError] = useState<string | null>(null);
  const [loading, setLoading] = useState(true);
  const known = useRef(new Map<number, AuditRow>());
  const route = filter.everybody ? '/admin/audit' : '/audit';
  useEffect(() => {
    const stop = new AbortController();
    const query: Query = { from: filter.span ? Date.now() - filter.span : undefined, action: filter.action.trim() || undefined };
    known.current = new Map();
    let since = Date.now();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = () => {
      timer = undefined;
      setRows([...known.current.values()].sort((a, b) => b.seq - a.seq).slice(0, ROWS_MAX));
    };
    const run = async () => {
      for await (const page of pages<AuditRow>(route, { ...query, limit: PAGE_ROWS }, { signal: stop.signal }, 'cursor')) {
        for (const row of page) known.current.set(row.seq, row);
        show();
        setLoading(false);
        if (known.current.size >= ROWS_MAX) break;
      }
      await follow<AuditRow>(route, {
        signal: stop.signal,
        query: () => ({ ...query, from: since, follow: true }),
        onLine: (row) => {
          if (typeof row.seq !== 'number') return; // the daemon's last word
          known.current.set(row.seq, row);
          since = new Date(row.time).getTime();
          timer ??= setTimeout(show, 100);
        },
      });
    };
    setLoading(true);
    setError(null);
    run().catch((thrown) => {
      if (stop.signal.aborted) return;
      setError(sentence(thrown));
      setLoading(false);
    });
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [route, filter.span, filter.action]);
  return { rows, error, loading };
}

function download(rows: AuditRow[]) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([rows.map((row) => JSON.stringify(row)).join('\n') + '\n'], { type: 'application/x-ndjson' }));
  link.download = 'audit.ndjson';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export default function Audit() {
  const [filter, setFilter] = useState<Filter>({ span: 24 * 3600_000, action: '', everybody: false });
  const [action, setAction] = useState('');
  const [text, setText] = useState('');
  const [shown, setShown] = useState<AuditRow | null>(null);
  const { rows, error, loading } = useAudit(filter);
  useEffect(() => {
    const timer = setTimeout(() => setFilter((before) => (before.action === action ? before : { ...before, action })), TYPING_MS);
    return () => clearTimeout(timer);
  }, [action]);
  return (
    <div class="page fill">
      <PageHead title="Audit" sub="Who changed what. Values are not recorded.">
        <Button icon="download" disabled={rows.length === 0} onClick={() => download(rows)}>
          Download
        </Button>
      </PageHead>
      <ErrorNote error={error} />
      <div class="row wrap" role="search">
        <SearchField label="Filter by any text" value={text} onInput={setText} />
        <select class="input" aria-label="Time" value={filter.span} onChange={(event) => setFilter({ ...filter, span: Number(event.currentTarget.value) })}>
          {TIMES.map(([span, label]) => (
            <option value={span}>{label}</option>
          ))}
        </select>
        <div class="search">
          <input
            class="input plain-filter"
            aria-label="Action, with * for any text"
            placeholder="Action: sandbox.*"
            spellcheck={false}
            value={action}
            onInput={(event) => setAction(event.currentTarget.value)}
          />
        </div>
        {isOperator.value && (
          <label class="check">
            <input type="checkbox" checked={filter.everybody} onChange={(event) => setFilter({ ...filter, everybody: event.currentTarget.checked })} />
            every team
          </label>
        )}
      </div>
      {loading ? (
        <Spinner label="Loading the audit log" />
      ) : (
        <Table
          label="Audit"
          columns={columns}
          rows={rows}
          rowKey={(row) => String(row.seq)}
          filter={text}
          sort={{ id: 'time', desc: true }}
          onOpen={setShown}
          foot={rows.length >= ROWS_MAX && <span>The newest {count(ROWS_MAX)} are shown: choose a shorter time, or export all with atoll audit.</span>}
          empty={
            error ? undefined : (
              <EmptyState title="Nothing was changed in this time">
                Each call that changes something is listed here. On the command line:
                <div class="row center">
                  <CopyLine text="atoll audit" />
                </div>
              </EmptyState>
            )
          }
        />
      )}
      {shown && <Detail row={shown} onClose={() => setShown(null)} />}
    </div>
  );
}
