// API keys of a team: its own page has them, and the operator's page of each team.
import { useMemo, useState } from 'preact/hooks';
import { del, patch, post } from '../../lib/api';
import { age, dateTime } from '../../lib/format';
import { fromTexts, hasLimits, toTexts, type Limits } from '../../lib/limits';
import { session } from '../../lib/session';
import { Badge, Button, CopyLine, EmptyState, Field, Note, SearchField } from '../../ui/basics';
import { confirm, Dialog } from '../../ui/dialog';
import { Form } from '../../ui/form';
import { LimitFields, limitsText } from '../../ui/limits';
import { Table, type Column } from '../../ui/table';
import { tableHeight } from '../../ui/table-height';
import { toast } from '../../ui/toast';

export interface ApiKey {
  id: string;
  name: string;
  mask: { prefix: string; valueLength: number; maskedValuePrefix: string; maskedValueSuffix: string };
  createdAt: string;
  lastUsed?: string | null;
  limits?: Limits;
  readOnly?: boolean;
}

const columnsFor = (change: (key: ApiKey) => void, revoke: (key: ApiKey) => void): Column<ApiKey>[] => [
  {
    id: 'name',
    header: 'Name',
    value: (row) => row.name,
    cell: (row) => (
      <>
        {row.name} {row.id === session.value?.key.id && <Badge tone="info">this session</Badge>}
      </>
    ),
    width: 'minmax(150px, 1.5fr)',
  },
  {
    id: 'mask',
    header: 'Key',
    value: (row) => `${row.mask.prefix}${row.mask.maskedValuePrefix}…${row.mask.maskedValueSuffix}`,
    cell: (row) => (
      <span class="mono">
        {row.mask.prefix}
        {row.mask.maskedValuePrefix}…{row.mask.maskedValueSuffix}
      </span>
    ),
    width: '140px',
    sortable: false,
  },
  {
    id: 'rights',
    header: 'May',
    value: (row) => (row.readOnly ? 'only read' : 'change'),
    cell: (row) => (row.readOnly ? <Badge tone="warn">only read</Badge> : <Badge>read and change</Badge>),
    width: '140px',
  },
  { id: 'limits', header: 'Limits', value: (row) => limitsText(row.limits), cell: (row) => <span class={hasLimits(row.limits) ? '' : 'faint'}>{limitsText(row.limits)}</span>, width: 'minmax(120px, 1.5fr)', sortable: false },
  { id: 'made', header: 'Created', value: (row) => -new Date(row.createdAt).getTime(), cell: (row) => <span title={dateTime(row.createdAt)}>{age(row.createdAt)} ago</span>, width: '110px', align: 'right', searched: false },
  {
    id: 'used',
    header: 'Last used',
    value: (row) => (row.lastUsed ? -new Date(row.lastUsed).getTime() : undefined),
    cell: (row) => (row.lastUsed ? <span title={dateTime(row.lastUsed)}>{age(row.lastUsed)} ago</span> : <span class="faint">never</span>),
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
        <Button write small kind="quiet" icon="edit" label={`Change ${row.name}`} onClick={() => change(row)} />
        <Button write small kind="quiet" icon="trash" label={`Revoke ${row.name}`} onClick={() => revoke(row)} />
      </span>
    ),
    width: '84px',
    align: 'right',
    sortable: false,
  },
];

function EditKey({ base, apiKey, onClose, onDone }: { base: string; apiKey: ApiKey | null; onClose: () => void; onDone: () => void }) {
  const [name, setName] = useState(apiKey?.name ?? '');
  const [readOnly, setReadOnly] = useState(false);
  const [limits, setLimits] = useState(toTexts(apiKey?.limits));
  const [made, setMade] = useState<string | null>(null);
  const save = async () => {
    if (apiKey) {
      await patch(`${base}/${encodeURIComponent(apiKey.id)}`, { name: name.trim(), limits: fromTexts(limits) });
      toast(`${name.trim()} is changed.`);
      onDone();
      onClose();
      return;
    }
    const key = await post<{ key: string }>(base, { name: name.trim(), limits: fromTexts(limits), readOnly: readOnly || undefined });
    setMade(key.key);
    onDone();
  };
  if (made !== null) {
    return (
      <Dialog title={`The key ${name.trim()}`} onClose={onClose}>
        <div class="form">
          <Note tone="warn">Copy it now: it is not shown again.</Note>
          <CopyLine text={made} block label="Copy the key" />
          <div class="form-foot">
            <Button kind="primary" onClick={onClose}>
              I have it
            </Button>
          </div>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title={apiKey ? `Change ${apiKey.name}` : 'Create an API key'} onClose={onClose}>
      <Form submit={apiKey ? 'Change' : 'Create'} onSubmit={save} onCancel={onClose} disabled={name.trim() === ''}>
        <Field label="Name" hint="Whose it is, or what for.">
          {(id, hint) => <input id={id} aria-describedby={hint} value={name} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />}
        </Field>
        {!apiKey && (
          <label class="check">
            <input type="checkbox" checked={readOnly} onChange={(event) => setReadOnly(event.currentTarget.checked)} />
            It may only read. That cannot be changed later.
          </label>
        )}
        <LimitFields value={limits} onChange={setLimits} />
      </Form>
    </Dialog>
  );
}

export function KeyTable({ base, keys, onChange, fill }: { base: string; keys: ApiKey[]; onChange: () => void; fill?: boolean }) {
  const [filter, setFilter] = useState('');
  const [editing, setEditing] = useState<ApiKey | 'new' | null>(null);
  const revoke = (key: ApiKey) =>
    void confirm({
      title: `Revoke ${key.name}?`,
      text:
        key.id === session.value?.key.id
          ? 'This session uses it: you are logged out, and so is everybody who uses this key. It cannot be undone.'
          : 'Programs and sessions that use it are refused from now on. It cannot be undone.',
      action: 'Revoke',
      danger: true,
      run: async () => {
        await del(`${base}/${encodeURIComponent(key.id)}`);
        toast(`${key.name} does not work any more.`);
        onChange();
      },
    });
  const columns = useMemo(() => columnsFor(setEditing, revoke), [base, session.value?.key.id]);
  return (
    <>
      <div class="row wrap">
        <SearchField label="Filter by name" value={filter} onInput={setFilter} />
        <span class="grow" />
        <Button write kind="primary" icon="plus" onClick={() => setEditing('new')}>
          Create key
        </Button>
      </div>
      <Table
        label="API keys"
        columns={columns}
        rows={keys}
        rowKey={(row) => row.id}
        filter={filter}
        sort={{ id: 'made' }}
        height={fill ? undefined : tableHeight(keys.length, 8)}
        empty={
          <EmptyState title="No keys" line="atoll key create NAME">
            Programs need a key to use the daemon. Create one with the button above, or on the command line:
          </EmptyState>
        }
      />
      {editing !== null && <EditKey base={base} apiKey={editing === 'new' ? null : editing} onClose={() => setEditing(null)} onDone={onChange} />}
    </>
  );
}
