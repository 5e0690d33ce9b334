// Snapshots: saved states of sandboxes, from which new ones start.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { all, del, path } from '../lib/api';
import { onEvent, onReconnect } from '../lib/events';
import { age, bytes, dateTime, plural } from '../lib/format';
import { useShortcut } from '../lib/keys';
import { useLoad } from '../lib/load';
import { Button, EmptyState, ErrorNote, PageHead, SearchField, Spinner } from '../ui/basics';
import { confirm } from '../ui/dialog';
import { Table, type Column } from '../ui/table';
import { toast } from '../ui/toast';
import { Create } from './sandboxes/create';

interface Snapshot {
  snapshotID: string;
  names: string[];
  diskUsedBytes: number;
  sandboxID?: string | null;
  createdAt?: string;
}

const AGAIN_MS = 10_000; // events tell of a snapshot that was made, and none of one that was deleted

/* The id of the template that it is: "name:tag" without the tag. */
const templateOf = (snapshot: Snapshot) => snapshot.snapshotID.replace(/:[^:/]*$/, '');

function remove(snapshot: Snapshot, done: () => void) {
  void confirm({
    title: `Delete ${snapshot.snapshotID}?`,
    text: 'Sandboxes can no longer start from it. Those that did go on. This cannot be undone.',
    action: 'Delete',
    danger: true,
    run: async () => {
      await del(path`/templates/${templateOf(snapshot)}`);
      toast(`${snapshot.snapshotID} is deleted.`);
      done();
    },
  });
}

function columnsFor(start: (id: string) => void, again: () => void): Column<Snapshot>[] {
  return [
    { id: 'id', header: 'Snapshot', value: (row) => row.snapshotID, cell: (row) => <span class="mono">{row.snapshotID}</span>, width: 'minmax(220px, 2fr)' },
    {
      id: 'from',
      header: 'From sandbox',
      value: (row) => row.sandboxID,
      cell: (row) =>
        row.sandboxID ? (
          <a class="mono" href={`#/sandboxes/${encodeURIComponent(row.sandboxID)}`}>
            {row.sandboxID}
          </a>
        ) : (
          <span class="faint">–</span>
        ),
      width: 'minmax(178px, 1.2fr)',
    },
    {
      id: 'age',
      header: 'Made',
      value: (row) => (row.createdAt ? -new Date(row.createdAt).getTime() : undefined),
      cell: (row) => (row.createdAt ? <span title={dateTime(row.createdAt)}>{age(row.createdAt)} ago</span> : <span class="faint">–</span>),
      width: '110px',
      align: 'right',
      searched: false,
    },
    { id: 'size', header: 'On disk', value: (row) => row.diskUsedBytes, cell: (row) => bytes(row.diskUsedBytes), width: '100px', align: 'right', searched: false },
    {
      id: 'do',
      header: '',
      value: () => '',
      cell: (row) => (
        <span class="row-actions">
          <Button write small icon="play" onClick={() => start(row.snapshotID)}>
            Start
          </Button>
          <Button write small kind="quiet" icon="trash" label={`Delete ${row.snapshotID}`} onClick={() => remove(row, again)} />
        </span>
      ),
      width: '130px',
      align: 'right',
      sortable: false,
    },
  ];
}

export default function Snapshots() {
  const [filter, setFilter] = useState('');
  const [starting, setStarting] = useState<string | null>(null);
  const { data, error, loading, reload } = useLoad((signal) => all<Snapshot>('/snapshots', { limit: 100 }, { signal }), [], AGAIN_MS);
  useEffect(() => {
    const ends = [onEvent((event) => event.type.endsWith('.snapshotted') && void reload()), onReconnect(() => void reload())];
    return () => ends.forEach((end) => end());
  }, []);
  const search = useMemo(() => () => document.getElementById('snapshot-filter')?.focus(), []);
  useShortcut('/', 'Filter the list', search);
  const columns = useMemo(() => columnsFor(setStarting, () => void reload()), []);
  const rows = data ?? [];
  return (
    <div class="page fill">
      <PageHead title="Snapshots" sub={plural(rows.length, 'snapshot')}>
        <Button icon="refresh" label="Load the list again" onClick={() => void reload()} />
      </PageHead>
      <ErrorNote error={error} />
      <div class="row wrap" role="search">
        <SearchField id="snapshot-filter" label="Filter by name or sandbox" value={filter} onInput={setFilter} />
      </div>
      {loading ? (
        <Spinner label="Loading the snapshots" />
      ) : (
        <Table
          label="Snapshots"
          columns={columns}
          rows={rows}
          rowKey={(row) => row.snapshotID}
          filter={filter}
          empty={
            <EmptyState title="No snapshots" line="atoll snapshot SANDBOX mine">
              A snapshot keeps the files and the running processes of a sandbox, for new ones to start from. Make one on the page of a sandbox, or on the
              command line:
            </EmptyState>
          }
        />
      )}
      {starting !== null && <Create template={starting} onClose={() => setStarting(null)} />}
    </div>
  );
}
