// API shells: connections to APIs that code in a sandbox uses without their keys.
import { useMemo, useState } from 'preact/hooks';
import { del, get, path, put } from '../../lib/api';
import { age, dateTime } from '../../lib/format';
import { useLoad } from '../../lib/load';
import { canWrite } from '../../lib/session';
import { Badge, Button, EmptyState, ErrorNote, Field, SearchField, Spinner } from '../../ui/basics';
import { confirm, Dialog } from '../../ui/dialog';
import { Form } from '../../ui/form';
import { Table, type Column } from '../../ui/table';
import { toast } from '../../ui/toast';

interface Carried {
  name: string;
  value?: string;
  sealed?: boolean;
}

interface Shell {
  name: string;
  baseUrl: string;
  methods?: string[];
  paths?: string[];
  header?: Carried;
  query?: Carried;
  description?: string;
  createdAt: string;
  updatedAt: string;
}

const AGAIN_MS = 15_000;
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];

const columnsFor = (change: (shell: Shell) => void, remove: (shell: Shell) => void): Column<Shell>[] => [
  { id: 'name', header: 'Shell', value: (row) => `${row.name} ${row.description ?? ''}`, cell: (row) => <span title={row.description}>{row.name}</span>, width: 'minmax(120px, 1fr)' },
  { id: 'url', header: 'Address', value: (row) => row.baseUrl, cell: (row) => <span class="mono">{row.baseUrl}</span>, width: 'minmax(190px, 2fr)' },
  { id: 'methods', header: 'Methods', value: (row) => (row.methods ?? ['GET']).join(' '), width: 'minmax(90px, 1fr)' },
  { id: 'paths', header: 'Paths', value: (row) => (row.paths ?? ['/**']).join(' '), cell: (row) => <span class="mono">{(row.paths ?? ['/**']).join(' ')}</span>, width: 'minmax(90px, 1fr)' },
  {
    id: 'key',
    header: 'Its key',
    value: (row) => row.header?.name ?? row.query?.name ?? '',
    cell: (row) => {
      const carried = row.header ?? row.query;
      if (!carried) return <span class="faint">none</span>;
      return (
        <>
          {carried.sealed ? <Badge tone="ok">sealed</Badge> : <code>{carried.value}</code>} in {row.header ? 'header' : 'query'} {carried.name}
        </>
      );
    },
    width: 'minmax(220px, 2fr)',
    sortable: false,
  },
  {
    id: 'updated',
    header: 'Changed',
    value: (row) => -new Date(row.updatedAt).getTime(),
    cell: (row) => <span title={dateTime(row.updatedAt)}>{age(row.updatedAt)} ago</span>,
    width: '104px',
    align: 'right',
    searched: false,
  },
  {
    id: 'do',
    header: '',
    value: () => '',
    cell: (row) => (
      <span class="row-actions">
        <Button write small kind="quiet" icon="edit" label={`Replace ${row.name}`} onClick={() => change(row)} />
        <Button write small kind="quiet" icon="trash" label={`Delete ${row.name}`} onClick={() => remove(row)} />
      </span>
    ),
    width: '84px',
    align: 'right',
    sortable: false,
  },
];

const words = (text: string) => text.split(/[\s,]+/).filter(Boolean);

function SetShell({ shell, onClose, onDone }: { shell: Shell | null; onClose: () => void; onDone: () => void }) {
  const before = shell?.header ?? shell?.query;
  const [name, setName] = useState(shell?.name ?? '');
  const [url, setUrl] = useState(shell?.baseUrl ?? 'https://');
  const [methods, setMethods] = useState(shell?.methods ?? ['GET']);
  const [paths, setPaths] = useState((shell?.paths ?? ['/**']).join(' '));
  const [where, setWhere] = useState<'none' | 'header' | 'query'>(shell ? (shell.header ? 'header' : shell.query ? 'query' : 'none') : 'header');
  const [keyName, setKeyName] = useState(before?.name ?? 'Authorization');
  const [value, setValue] = useState('');
  const [description, setDescription] = useState(shell?.description ?? '');
  const known = before && !before.sealed ? before.value : undefined;
  const save = async () => {
    const carried = { name: keyName.trim(), value: value || known };
    await put(path`/shells/${name.trim()}`, {
      baseUrl: url.trim(),
      methods,
      paths: words(paths),
      header: where === 'header' ? carried : undefined,
      query: where === 'query' ? carried : undefined,
      description: description.trim() || undefined,
    });
    toast(`The shell ${name.trim()} is there.`);
    onDone();
    onClose();
  };
  const toggle = (method: string, on: boolean) => setMethods(METHODS.filter((one) => (one === method ? on : methods.includes(one))));
  return (
    <Dialog title={shell ? `Replace ${shell.name}` : 'Create an API shell'} onClose={onClose}>
      <Form submit={shell ? 'Replace' : 'Create'} onSubmit={save} onCancel={onClose} disabled={name.trim() === '' || url.trim() === '' || methods.length === 0}>
        <div class="two">
          <Field label="Name">
            {(id) => <input id={id} value={name} disabled={shell !== null} spellcheck={false} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />}
          </Field>
          <Field label="Address of the API">
            {(id) => <input id={id} value={url} spellcheck={false} autocomplete="off" onInput={(event) => setUrl(event.currentTarget.value)} />}
          </Field>
        </div>
        <fieldset class="plain">
          <legend class="label">Methods that code may use</legend>
          <div class="row wrap">
            {METHODS.map((method) => (
              <label class="check" key={method}>
                <input type="checkbox" checked={methods.includes(method)} onChange={(event) => toggle(method, event.currentTarget.checked)} />
                {method}
              </label>
            ))}
          </div>
        </fieldset>
        <Field label="Paths" hint="Separated by spaces. * stands for one part, ** for all below.">
          {(id, hint) => <input id={id} aria-describedby={hint} value={paths} spellcheck={false} onInput={(event) => setPaths(event.currentTarget.value)} />}
        </Field>
        <div class="two">
          <Field label="Its key is sent in">
            {(id) => (
              <select id={id} value={where} onChange={(event) => setWhere(event.currentTarget.value as 'none' | 'header' | 'query')}>
                <option value="header">a header</option>
                <option value="query">the query</option>
                <option value="none">nothing: it needs none</option>
              </select>
            )}
          </Field>
          {where !== 'none' && (
            <Field label="called">
              {(id) => <input id={id} value={keyName} spellcheck={false} autocomplete="off" onInput={(event) => setKeyName(event.currentTarget.value)} />}
            </Field>
          )}
        </div>
        {where !== 'none' && (
          <Field
            label="with the value"
            hint={shell ? (known ? 'Empty: it stays as it is.' : 'It is sealed: give it again.') : 'Bearer ${e2b.secrets.NAME} uses a secret. Any other value is sealed: nobody can read it again.'}
          >
            {(id, hint) => (
              <input
                id={id}
                type="password"
                aria-describedby={hint}
                value={value}
                placeholder={known ?? ''}
                autocomplete="new-password"
                onInput={(event) => setValue(event.currentTarget.value)}
              />
            )}
          </Field>
        )}
        <Field label="What it is for">
          {(id) => <input id={id} value={description} onInput={(event) => setDescription(event.currentTarget.value)} />}
        </Field>
      </Form>
    </Dialog>
  );
}

export function Shells() {
  const [filter, setFilter] = useState('');
  const [setting, setSetting] = useState<Shell | 'new' | null>(null);
  const { data, error, loading, reload } = useLoad((signal) => get<Shell[]>('/shells', undefined, { signal }), [], AGAIN_MS);
  const remove = (shell: Shell) =>
    void confirm({
      title: `Delete ${shell.name}?`,
      text: 'Code that uses it is refused from now on.',
      action: 'Delete',
      danger: true,
      run: async () => {
        await del(path`/shells/${shell.name}`);
        toast(`${shell.name} is deleted.`);
        await reload();
      },
    });
  const columns = useMemo(() => columnsFor(setSetting, remove), []);
  return (
    <>
      <div class="row wrap">
        <SearchField label="Filter by name or address" value={filter} onInput={setFilter} />
        <span class="grow" />
        <Button write kind="primary" icon="plus" onClick={() => setSetting('new')}>
          Create shell
        </Button>
      </div>
      <ErrorNote error={error} />
      {loading ? (
        <Spinner label="Loading the shells" />
      ) : (
        <Table
          label="API shells"
          columns={columns}
          rows={data ?? []}
          rowKey={(row) => row.name}
          filter={filter}
          sort={{ id: 'name' }}
          empty={
            <EmptyState title="No API shells" line={'import make_api_shell as make\nprint(make.call("github", "/user"))'}>
              A shell is an API that code may call without having its key. {canWrite.value && 'Create one with the button above. '}Code uses it like this:
            </EmptyState>
          }
        />
      )}
      {setting !== null && <SetShell shell={setting === 'new' ? null : setting} onClose={() => setSetting(null)} onDone={() => void reload()} />}
    </>
  );
}
