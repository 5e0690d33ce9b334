// The live list of sandboxes.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { navigate } from 'wouter-preact/use-hash-location';
import { age, bytes, dateTime, left, percent, plural } from '../../lib/format';
import { useShortcut } from '../../lib/keys';
import { keepList, loadError, loading, sandboxes, setInView, type SandboxRow } from '../../lib/sandboxes';
import { canWrite } from '../../lib/session';
import { Button, EmptyState, ErrorNote, PageHead, Spinner, StateBadge } from '../../ui/basics';
import { Table, type Column } from '../../ui/table';
import { Bulk } from './bulk';
import { Create } from './create';
import { Filters, fits, noFilter, type Filter } from './filters';

const metadataText = (row: SandboxRow) =>
  Object.entries(row.metadata)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');

function Share({ used, of, text }: { used?: number; of: number; text: string }) {
  if (used === undefined) return <span class="faint">–</span>;
  return <span class={of > 0 && used / of > 0.9 ? 'warn-text' : ''}>{text}</span>;
}

const columns: Column<SandboxRow>[] = [
  { id: 'state', header: 'State', value: (row) => row.state, cell: (row) => <StateBadge state={row.state} />, width: '98px' },
  {
    id: 'id',
    header: 'Sandbox',
    value: (row) => row.id,
    cell: (row) => (
      <a class="mono" href={`#/sandboxes/${encodeURIComponent(row.id)}`}>
        {row.id}
      </a>
    ),
    width: '178px',
  },
  { id: 'template', header: 'Template', value: (row) => row.template, width: 'minmax(80px, 1fr)' },
  {
    id: 'metadata',
    header: 'Metadata',
    value: metadataText,
    cell: (row) => (
      <span title={metadataText(row)}>
        {Object.entries(row.metadata).map(([name, value]) => (
          <>
            <span class="tag ellipsis">
              {name}={value}
            </span>{' '}
          </>
        ))}
      </span>
    ),
    width: 'minmax(110px, 2fr)',
    sortable: false,
  },
  {
    id: 'age',
    header: 'Age',
    value: (row) => -new Date(row.createdAt).getTime(),
    cell: (row) => <span title={dateTime(row.createdAt)}>{age(row.createdAt)}</span>,
    width: '80px',
    align: 'right',
    searched: false,
  },
  {
    id: 'left',
    header: 'Time left',
    value: (row) => (row.state === 'running' ? new Date(row.endAt).getTime() : undefined),
    cell: (row) => (row.state === 'running' ? <span title={dateTime(row.endAt)}>{left(row.endAt)}</span> : <span class="faint">–</span>),
    width: '86px',
    align: 'right',
    searched: false,
  },
  {
    id: 'cpu',
    header: 'CPU',
    value: (row) => row.cpuPct,
    cell: (row) => <Share used={row.cpuPct} of={100} text={percent(row.cpuPct)} />,
    width: '64px',
    align: 'right',
    searched: false,
  },
  {
    id: 'memory',
    header: 'Memory',
    value: (row) => row.memUsed,
    cell: (row) => (
      <span title={`of ${bytes(row.memoryBytes)}`}>
        <Share used={row.memUsed} of={row.memoryBytes} text={bytes(row.memUsed)} />
      </span>
    ),
    width: '86px',
    align: 'right',
    searched: false,
  },
  {
    id: 'disk',
    header: 'Disk',
    value: (row) => row.diskUsed,
    cell: (row) => (
      <span title={`of ${bytes(row.diskBytes)}`}>
        <Share used={row.diskUsed} of={row.diskBytes} text={bytes(row.diskUsed)} />
      </span>
    ),
    width: '86px',
    align: 'right',
    searched: false,
  },
  {
    id: 'error',
    header: 'Last error',
    value: (row) => row.lastError,
    cell: (row) =>
      row.lastError && (
        <span class="bad-text" title={row.lastError}>
          {row.lastError}
        </span>
      ),
    width: 'minmax(84px, 1.2fr)',
  },
];

function Nothing() {
  return (
    <EmptyState title="No sandboxes" line="atoll run echo hello">
      {canWrite.value ? 'Create one here with the button above, with an SDK, or on the command line:' : 'One is created with an SDK, or on the command line:'}
    </EmptyState>
  );
}

const rowKey = (row: SandboxRow) => row.id;
const SETTLED_MS = 80;

/** The value once it has rested: a filter is not applied between two letters. */
function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

export default function Sandboxes() {
  const [filter, setFilter] = useState<Filter>(noFilter);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [creating, setCreating] = useState(false);
  useEffect(keepList, []);
  const create = useMemo(() => () => setCreating(true), []);
  const search = useMemo(() => () => document.getElementById('sandbox-filter')?.focus(), []);
  useShortcut('c', 'Create a sandbox', create, canWrite.value);
  useShortcut('/', 'Filter the list', search);

  const all = sandboxes.value;
  const rows = useMemo(() => [...all.values()], [all]);
  const applied = useSettled(filter);
  const whole = useMemo(() => rows.some((row) => row.template === applied.template), [rows, applied.template]);
  const keep = useMemo(() => (row: SandboxRow) => fits(row, applied, whole), [applied, whole]);
  const running = useMemo(() => [...all.values()].filter((row) => row.state === 'running').length, [all]);
  const chosen = useMemo(() => (selected.size ? rows.filter((row) => selected.has(row.id) && keep(row)) : []), [rows, selected, keep]);

  return (
    <div class="page fill">
      <PageHead title="Sandboxes" sub={`${plural(running, 'running', 'running')}, ${plural(all.size - running, 'paused', 'paused')}`}>
        <Button write kind="primary" icon="plus" onClick={create}>
          Create sandbox
        </Button>
      </PageHead>
      <ErrorNote error={loadError.value} />
      <Filters filter={filter} onChange={setFilter} rows={all} />
      {chosen.length > 0 && <Bulk rows={chosen} onDone={() => setSelected(new Set())} />}
      {loading.value ? (
        <Spinner label="Loading the sandboxes" />
      ) : (
        <Table
          label="Sandboxes"
          columns={columns}
          rows={rows}
          keep={keep}
          rowKey={rowKey}
          sort={{ id: 'age' }}
          selected={canWrite.value ? selected : undefined}
          onSelect={canWrite.value ? setSelected : undefined}
          onOpen={(row) => navigate(`/sandboxes/${encodeURIComponent(row.id)}`)}
          onVisible={setInView}
          empty={<Nothing />}
        />
      )}
      {creating && <Create onClose={() => setCreating(false)} />}
    </div>
  );
}
