// The list of secrets, without their values.
import { useMemo, useState } from 'preact/hooks';
import { all, del, path, post } from '../../lib/api';
import { age, dateTime } from '../../lib/format';
import { useLoad } from '../../lib/load';
import { canWrite } from '../../lib/session';
import { Button, EmptyState, ErrorNote, Field, SearchField, Spinner } from '../../ui/basics';
import { confirm, Dialog } from '../../ui/dialog';
import { Form, fromPairs, Pairs, type Pair } from '../../ui/form';
import { Table, type Column } from '../../ui/table';
import { toast } from '../../ui/toast';

interface Secret {
  secretID: string;
  name: string;
  currentVersion: number;
  metadata: Record<string, string>;
  createdAt: string;
  updatedAt: string;
}

const AGAIN_MS = 15_000;

const columnsFor = (change: (secret: Secret) => void, remove: (secret: Secret) => void): Column<Secret>[] => [
  { id: 'name', header: 'Secret', value: (row) => row.name, cell: (row) => <span class="mono">{row.name}</span>, width: 'minmax(150px, 1.5fr)' },
  { id: 'use', header: 'Written as', value: (row) => `\${e2b.secrets.${row.name}}`, cell: (row) => <code>{`\${e2b.secrets.${row.name}}`}</code>, width: 'minmax(190px, 2fr)', sortable: false, searched: false },
  {
    id: 'metadata',
    header: 'Metadata',
    value: (row) => Object.entries(row.metadata).flat().join(' '),
    cell: (row) =>
      Object.entries(row.metadata).map(([name, value]) => (
        <>
          <span class="tag ellipsis">
            {name}={value}
          </span>{' '}
        </>
      )),
    width: 'minmax(120px, 1.5fr)',
    sortable: false,
  },
  { id: 'version', header: 'Version', value: (row) => row.currentVersion, width: '84px', align: 'right', searched: false },
  {
    id: 'updated',
    header: 'Set',
    value: (row) => -new Date(row.updatedAt).getTime(),
    cell: (row) => <span title={dateTime(row.updatedAt)}>{age(row.updatedAt)} ago</span>,
    width: '110px',
    align: 'right',
    searched: false,
  },
  {
    id: 'do',
    header: '',
    value: () => '',
    cell: (row) => (
      <span class="row-actions">
        <Button write small onClick={() => change(row)}>
          New value
        </Button>
        <Button write small kind="quiet" icon="trash" label={`Delete ${row.name}`} onClick={() => remove(row)} />
      </span>
    ),
    width: '140px',
    align: 'right',
    sortable: false,
  },
];

/* A password field: the text is in no attribute of the page, and is gone with the dialog. */
function SetSecret({ secret, onClose, onDone }: { secret: Secret | null; onClose: () => void; onDone: () => void }) {
  const [name, setName] = useState(secret?.name ?? '');
  const [value, setValue] = useState('');
  const [metadata, setMetadata] = useState<Pair[]>(Object.entries(secret?.metadata ?? {}));
  const save = async () => {
    if (secret) await post(path`/secrets/${secret.secretID}`, { value, metadata: fromPairs(metadata) ?? {} });
    else await post('/secrets', { name: name.trim(), value, metadata: fromPairs(metadata) });
    toast(secret ? `${secret.name} has a new value.` : `The secret ${name.trim()} is set.`);
    onDone();
    onClose();
  };
  return (
    <Dialog title={secret ? `New value of ${secret.name}` : 'Set a secret'} onClose={onClose}>
      <Form submit="Set" onSubmit={save} onCancel={onClose} disabled={name.trim() === '' || value === ''}>
        {!secret && (
          <Field label="Name" hint="Kept in lower case. Rules of a sandbox's network and API shells name it.">
            {(id, hint) => (
              <input id={id} aria-describedby={hint} value={name} spellcheck={false} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />
            )}
          </Field>
        )}
        <Field label="Value" hint="Only the daemon has it from now on: nobody can read it again.">
          {(id, hint) => (
            <input
              id={id}
              type="password"
              aria-describedby={hint}
              value={value}
              autocomplete="new-password"
              onInput={(event) => setValue(event.currentTarget.value)}
            />
          )}
        </Field>
        <Pairs label="Metadata (not secret)" value={metadata} onChange={setMetadata} />
      </Form>
    </Dialog>
  );
}

export function Secrets() {
  const [filter, setFilter] = useState('');
  const [setting, setSetting] = useState<Secret | 'new' | null>(null);
  const { data, error, loading, reload } = useLoad((signal) => all<Secret>('/secrets', { limit: 100 }, { signal }), [], AGAIN_MS);
  const remove = (secret: Secret) =>
    void confirm({
      title: `Delete ${secret.name}?`,
      text: 'Requests that name it fail from now on. The value is gone for good.',
      action: 'Delete',
      danger: true,
      run: async () => {
        await del(path`/secrets/${secret.secretID}`);
        toast(`${secret.name} is deleted.`);
        await reload();
      },
    });
  const columns = useMemo(() => columnsFor(setSetting, remove), []);
  return (
    <>
      <div class="row wrap">
        <SearchField label="Filter by name or metadata" value={filter} onInput={setFilter} />
        <span class="grow" />
        <Button write kind="primary" icon="plus" onClick={() => setSetting('new')}>
          Set a secret
        </Button>
      </div>
      <ErrorNote error={error} />
      {loading ? (
        <Spinner label="Loading the secrets" />
      ) : (
        <Table
          label="Secrets"
          columns={columns}
          rows={data ?? []}
          rowKey={(row) => row.secretID}
          filter={filter}
          sort={{ id: 'name' }}
          empty={
            <EmptyState title="No secrets" line="atoll secret set github-token">
              A secret stands in for a key in requests of a sandbox: the code inside never has it. {canWrite.value ? 'Set one with the button above, or on the command line:' : 'One is set on the command line:'}
            </EmptyState>
          }
        />
      )}
      {setting !== null && <SetSecret secret={setting === 'new' ? null : setting} onClose={() => setSetting(null)} onDone={() => void reload()} />}
    </>
  );
}
