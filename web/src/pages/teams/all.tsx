// All teams, for the operator.
import { useMemo, useState } from 'preact/hooks';
import { navigate } from 'wouter-preact/use-hash-location';
import { get, post } from '../../lib/api';
import { age, count, dateTime, megabytes } from '../../lib/format';
import { fromTexts, toTexts, type Amounts, type Limits } from '../../lib/limits';
import { useLoad } from '../../lib/load';
import { Badge, Button, EmptyState, ErrorNote, Field, SearchField, Spinner } from '../../ui/basics';
import { Dialog } from '../../ui/dialog';
import { Form } from '../../ui/form';
import { LimitFields } from '../../ui/limits';
import { Table, type Column } from '../../ui/table';
import { tableHeight } from '../../ui/table-height';
import { toast } from '../../ui/toast';

export interface AdminTeam {
  teamID: string;
  name: string;
  createdAt: string;
  isDefault: boolean;
  limits: Limits;
  usage: Amounts;
}

const AGAIN_MS = 10_000;

function of(name: keyof Limits, show: (n: number) => string = count) {
  return (row: AdminTeam) => {
    const limit = row.limits[name];
    const full = limit !== null && row.usage[name] >= limit;
    return (
      <span class={full ? 'warn-text' : ''}>
        {show(row.usage[name])} <span class="faint">of {limit === null ? '∞' : show(limit)}</span>
      </span>
    );
  };
}

const columns: Column<AdminTeam>[] = [
  {
    id: 'name',
    header: 'Team',
    value: (row) => row.name,
    cell: (row) => (
      <>
        <a href={`#/teams/${encodeURIComponent(row.teamID)}`}>{row.name}</a> {row.isDefault && <Badge>the daemon’s own</Badge>}
      </>
    ),
    width: 'minmax(150px, 1.5fr)',
  },
  { id: 'sandboxes', header: 'Sandboxes', value: (row) => row.usage.sandboxes, cell: of('sandboxes'), width: '110px', align: 'right', searched: false },
  { id: 'cpus', header: 'CPUs', value: (row) => row.usage.cpus, cell: of('cpus'), width: '100px', align: 'right', searched: false },
  { id: 'memory', header: 'Memory', value: (row) => row.usage.memoryMB, cell: of('memoryMB', megabytes), width: '160px', align: 'right', searched: false },
  { id: 'disk', header: 'Disk', value: (row) => row.usage.diskMB, cell: of('diskMB', megabytes), width: '160px', align: 'right', searched: false },
  { id: 'builds', header: 'Builds', value: (row) => row.usage.builds, cell: of('builds'), width: '90px', align: 'right', searched: false },
  { id: 'made', header: 'Created', value: (row) => -new Date(row.createdAt).getTime(), cell: (row) => <span title={dateTime(row.createdAt)}>{age(row.createdAt)} ago</span>, width: '110px', align: 'right', searched: false },
];

function CreateTeam({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('');
  const [limits, setLimits] = useState(toTexts());
  const create = async () => {
    const made = await post<AdminTeam>('/admin/teams', { name: name.trim(), limits: fromTexts(limits) });
    toast(`The team ${made.name} is there. It has no key yet.`);
    onClose();
    navigate(`/teams/${encodeURIComponent(made.teamID)}`);
  };
  return (
    <Dialog title="Create a team" onClose={onClose}>
      <Form submit="Create" onSubmit={create} onCancel={onClose} disabled={name.trim() === ''}>
        <Field label="Name" hint="a-z, 0-9, - and _. It is also the namespace of its templates.">
          {(id, hint) => <input id={id} aria-describedby={hint} value={name} spellcheck={false} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />}
        </Field>
        <LimitFields value={limits} onChange={setLimits} />
      </Form>
    </Dialog>
  );
}

export function AllTeams() {
  const [filter, setFilter] = useState('');
  const [creating, setCreating] = useState(false);
  const { data, error, loading } = useLoad((signal) => get<AdminTeam[]>('/admin/teams', undefined, { signal }), [], AGAIN_MS);
  const rows = useMemo(() => data ?? [], [data]);
  return (
    <div class="column">
      <div class="row wrap">
        <SearchField label="Filter by name" value={filter} onInput={setFilter} />
        <span class="grow" />
        <Button kind="primary" icon="plus" onClick={() => setCreating(true)}>
          Create team
        </Button>
      </div>
      <ErrorNote error={error} />
      {loading ? (
        <Spinner label="Loading the teams" />
      ) : (
        <Table
          label="Teams"
          columns={columns}
          rows={rows}
          rowKey={(row) => row.teamID}
          filter={filter}
          sort={{ id: 'name' }}
          height={tableHeight(rows.length, 12)}
          onOpen={(row) => navigate(`/teams/${encodeURIComponent(row.teamID)}`)}
          empty={<EmptyState title="No teams" line="atoll team create NAME" />}
        />
      )}
      {creating && <CreateTeam onClose={() => setCreating(false)} />}
    </div>
  );
}
