// The list of webhooks.
import { useMemo, useState } from 'preact/hooks';
import { navigate } from 'wouter-preact/use-hash-location';
import { get, path, patch } from '../../lib/api';
import { age, dateTime, plural } from '../../lib/format';
import { useShortcut } from '../../lib/keys';
import { useLoad } from '../../lib/load';
import { canWrite } from '../../lib/session';
import { Button, EmptyState, ErrorNote, PageHead, SearchField, Spinner, StateBadge } from '../../ui/basics';
import { Table, type Column } from '../../ui/table';
import { attempt } from '../../ui/toast';
import { EditWebhook, shortType, type Webhook } from './edit';

const AGAIN_MS = 15_000;

const columnsFor = (toggle: (hook: Webhook) => void): Column<Webhook>[] => [
  {
    id: 'name',
    header: 'Webhook',
    value: (row) => row.name,
    cell: (row) => <a href={`#/webhooks/${encodeURIComponent(row.id)}`}>{row.name}</a>,
    width: 'minmax(140px, 1.2fr)',
  },
  {
    id: 'enabled',
    header: 'State',
    value: (row) => (row.enabled ? 'enabled' : 'off'),
    cell: (row) =>
      canWrite.value ? (
        <label class="check">
          <input type="checkbox" role="switch" aria-label={`${row.name} is enabled`} checked={row.enabled} onChange={() => toggle(row)} />
          {row.enabled ? 'enabled' : 'off'}
        </label>
      ) : (
        <StateBadge state={row.enabled ? 'enabled' : 'off'} />
      ),
    width: '110px',
  },
  { id: 'url', header: 'Address', value: (row) => row.url, cell: (row) => <span class="mono">{row.url}</span>, width: 'minmax(200px, 2fr)' },
  {
    id: 'events',
    header: 'Events',
    value: (row) => row.events.map(shortType).join(' '),
    cell: (row) =>
      row.events.map((type) => (
        <>
          <span class="tag">{shortType(type)}</span>{' '}
        </>
      )),
    width: 'minmax(160px, 2fr)',
    sortable: false,
  },
  { id: 'made', header: 'Created', value: (row) => -new Date(row.createdAt).getTime(), cell: (row) => <span title={dateTime(row.createdAt)}>{age(row.createdAt)} ago</span>, width: '110px', align: 'right', searched: false },
];

export default function Webhooks() {
  const [filter, setFilter] = useState('');
  const [creating, setCreating] = useState(false);
  const { data, error, loading, reload } = useLoad((signal) => get<Webhook[]>('/events/webhooks', undefined, { signal }), [], AGAIN_MS);
  const create = useMemo(() => () => setCreating(true), []);
  const search = useMemo(() => () => document.getElementById('webhook-filter')?.focus(), []);
  useShortcut('c', 'Create a webhook', create, canWrite.value);
  useShortcut('/', 'Filter the list', search);
  const columns = useMemo(
    () =>
      columnsFor((hook) => {
        void attempt(async () => {
          await patch(path`/events/webhooks/${hook.id}`, { enabled: !hook.enabled });
          await reload();
        });
      }),
    [],
  );
  const rows = data ?? [];
  return (
    <div class="page fill">
      <PageHead title="Webhooks" sub={plural(rows.length, 'webhook')}>
        <Button write kind="primary" icon="plus" onClick={create}>
          Create webhook
        </Button>
      </PageHead>
      <ErrorNote error={error} />
      <div class="row wrap" role="search">
        <SearchField id="webhook-filter" label="Filter by name, address or event" value={filter} onInput={setFilter} />
      </div>
      {loading ? (
        <Spinner label="Loading the webhooks" />
      ) : (
        <Table
          label="Webhooks"
          columns={columns}
          rows={rows}
          rowKey={(row) => row.id}
          filter={filter}
          sort={{ id: 'name' }}
          onOpen={(row) => navigate(`/webhooks/${encodeURIComponent(row.id)}`)}
          empty={
            <EmptyState title="No webhooks" line="atoll webhook create https://example.com/hook">
              A webhook sends what happens to sandboxes to an address of yours. {canWrite.value ? 'Create one with the button above, or on the command line:' : 'One is created on the command line:'}
            </EmptyState>
          }
        />
      )}
      {creating && <EditWebhook hook={null} onClose={() => setCreating(false)} onDone={(made) => navigate(`/webhooks/${encodeURIComponent(made.id)}`)} />}
    </div>
  );
}
