// The list of volumes, and which sandboxes have them.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { navigate } from 'wouter-preact/use-hash-location';
import { all, del, get, path, post } from '../../lib/api';
import { onEvent } from '../../lib/events';
import { plural } from '../../lib/format';
import { useShortcut } from '../../lib/keys';
import { useLoad } from '../../lib/load';
import { canWrite } from '../../lib/session';
import type { Volume } from '../../lib/volumes';
import { Button, EmptyState, ErrorNote, Field, Note, PageHead, SearchField, Spinner } from '../../ui/basics';
import { confirm, Dialog } from '../../ui/dialog';
import { Form } from '../../ui/form';
import { Table, type Column } from '../../ui/table';
import { toast } from '../../ui/toast';

interface Mounting {
  sandboxID: string;
  state: string;
  volumeMounts?: { name: string; path: string }[];
}

interface Row extends Volume {
  users: { id: string; path: string }[];
}

const AGAIN_MS = 15_000;
const NAMED_MAX = 5;
const SANDBOXES_MAX = 2000; // beyond that the column is left out: it is a help, not the list

async function load(signal: AbortSignal): Promise<Row[]> {
  const volumes = await get<Volume[]>('/volumes', undefined, { signal });
  const users = new Map<string, { id: string; path: string }[]>();
  if (volumes.length) {
    const count = await get<{ sandboxes?: { running?: number } }>('/health', undefined, { signal }).catch(() => undefined);
    const few = (count?.sandboxes?.running ?? 0) <= SANDBOXES_MAX;
    const sandboxes = few ? await all<Mounting>('/v2/sandboxes', { state: 'running,paused' }, { signal }) : [];
    for (const sandbox of sandboxes) {
      for (const mount of sandbox.volumeMounts ?? []) {
        users.set(mount.name, [...(users.get(mount.name) ?? []), { id: sandbox.sandboxID, path: mount.path }]);
      }
    }
  }
  return volumes.map((volume) => ({ ...volume, users: users.get(volume.name) ?? [] }));
}

function remove(volume: Row, done: () => void) {
  const users = volume.users.map((user) => user.id);
  void confirm({
    title: `Delete the volume ${volume.name}?`,
    text: (
      <div class="column">
        <p>All files in it are deleted. This cannot be undone.</p>
        {users.length > 0 && (
          <Note tone="warn">
            Mounted by {users.slice(0, NAMED_MAX).join(', ')}
            {users.length > NAMED_MAX && ` and ${users.length - NAMED_MAX} more`}.
          </Note>
        )}
      </div>
    ),
    action: 'Delete',
    danger: true,
    run: async () => {
      await del(path`/volumes/${volume.volumeID}`);
      toast(`The volume ${volume.name} is deleted.`);
      done();
    },
  });
}

const columnsFor = (again: () => void): Column<Row>[] => [
  {
    id: 'name',
    header: 'Volume',
    value: (row) => row.name,
    cell: (row) => <a href={`#/volumes/${encodeURIComponent(row.volumeID)}`}>{row.name}</a>,
    width: 'minmax(150px, 1.5fr)',
  },
  { id: 'id', header: 'Id', value: (row) => row.volumeID, cell: (row) => <span class="mono">{row.volumeID}</span>, width: 'minmax(180px, 1.5fr)' },
  {
    id: 'users',
    header: 'Mounted by',
    value: (row) => row.users.map((user) => user.id).join(' '),
    cell: (row) =>
      row.users.length === 0 ? (
        <span class="faint">no sandbox</span>
      ) : (
        <>
          {row.users.slice(0, 2).map((user) => (
            <>
              <a class="mono" href={`#/sandboxes/${encodeURIComponent(user.id)}`} title={`at ${user.path}`}>
                {user.id}
              </a>{' '}
            </>
          ))}
          {row.users.length > 2 && <span class="muted">and {row.users.length - 2} more</span>}
        </>
      ),
    width: 'minmax(200px, 2fr)',
  },
  {
    id: 'do',
    header: '',
    value: () => '',
    cell: (row) => <Button write small kind="quiet" icon="trash" label={`Delete the volume ${row.name}`} onClick={() => remove(row, again)} />,
    width: '56px',
    align: 'right',
    sortable: false,
  },
];

function CreateVolume({ onClose, onDone }: { onClose: () => void; onDone: () => void }) {
  const [name, setName] = useState('');
  const create = async () => {
    await post('/volumes', { name: name.trim() });
    toast(`The volume ${name.trim()} is there.`);
    onDone();
    onClose();
  };
  return (
    <Dialog title="Create a volume" onClose={onClose}>
      <Form submit="Create" onSubmit={create} onCancel={onClose} disabled={name.trim() === ''}>
        <Field label="Name" hint="Letters, digits, - and _. Sandboxes mount it by this name.">
          {(id, hint) => (
            <input id={id} aria-describedby={hint} value={name} spellcheck={false} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />
          )}
        </Field>
      </Form>
    </Dialog>
  );
}

export default function Volumes() {
  const [filter, setFilter] = useState('');
  const [creating, setCreating] = useState(false);
  const { data, error, loading, reload } = useLoad(load, [], AGAIN_MS);
  useEffect(() => onEvent((event) => /\.(created|killed)$/.test(event.type) && void reload()), []);
  const create = useMemo(() => () => setCreating(true), []);
  const search = useMemo(() => () => document.getElementById('volume-filter')?.focus(), []);
  useShortcut('c', 'Create a volume', create, canWrite.value);
  useShortcut('/', 'Filter the list', search);
  const columns = useMemo(() => columnsFor(() => void reload()), []);
  const rows = data ?? [];
  return (
    <div class="page fill">
      <PageHead title="Volumes" sub={plural(rows.length, 'volume')}>
        <Button write kind="primary" icon="plus" onClick={create}>
          Create volume
        </Button>
      </PageHead>
      <ErrorNote error={error} />
      <div class="row wrap" role="search">
        <SearchField id="volume-filter" label="Filter by name or sandbox" value={filter} onInput={setFilter} />
      </div>
      {loading ? (
        <Spinner label="Loading the volumes" />
      ) : (
        <Table
          label="Volumes"
          columns={columns}
          rows={rows}
          rowKey={(row) => row.volumeID}
          filter={filter}
          sort={{ id: 'name' }}
          onOpen={(row) => navigate(`/volumes/${encodeURIComponent(row.volumeID)}`)}
          empty={
            <EmptyState title="No volumes" line={'atoll volume create data\natoll run -v data:/data ls -la /data'}>
              A volume is a disk that many sandboxes share and that outlives them. {canWrite.value ? 'Create one with the button above, or on the command line:' : 'One is created on the command line:'}
            </EmptyState>
          }
        />
      )}
      {creating && <CreateVolume onClose={() => setCreating(false)} onDone={() => void reload()} />}
    </div>
  );
}
