// One webhook: test it, and what was delivered.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { navigate } from 'wouter-preact/use-hash-location';
import { del, get, patch, path, post } from '../../lib/api';
import { onEvent, type SandboxEvent } from '../../lib/events';
import { age, dateTime, left, millis, plural } from '../../lib/format';
import { useLoad } from '../../lib/load';
import { Button, Card, EmptyState, ErrorNote, Facts, Note, PageHead, Spinner, StateBadge } from '../../ui/basics';
import { confirm, Dialog } from '../../ui/dialog';
import { JsonView } from '../../ui/json';
import { Table, type Column } from '../../ui/table';
import { attempt, toast } from '../../ui/toast';
import { EditWebhook, shortType, type Webhook } from './edit';

export interface Delivery {
  id: string;
  webhookId: string;
  eventId: string | null;
  eventType: string | null;
  sandboxId: string | null;
  status: string;
  attempts: number;
  responseStatus: number | null;
  error: string | null;
  createdAt: string;
  lastAttemptAt: string | null;
  nextAttemptAt: string | null;
  event?: SandboxEvent | null;
}

interface Tested {
  deliveryId: string;
  delivered: boolean;
  responseStatus: number | null;
  error: string | null;
  durationMs: number;
}

const AGAIN_MS = 4000;
const AFTER_EVENT_MS = 400; // a delivery follows its event
const PAGE_ROWS = 100; // the most that the route gives

const columns: Column<Delivery>[] = [
  { id: 'status', header: 'State', value: (row) => row.status, cell: (row) => <StateBadge state={row.status} />, width: '110px' },
  { id: 'type', header: 'Event', value: (row) => (row.eventType ? shortType(row.eventType) : ''), cell: (row) => <span class="tag">{row.eventType ? shortType(row.eventType) : 'no longer kept'}</span>, width: '130px' },
  { id: 'sandbox', header: 'Sandbox', value: (row) => row.sandboxId, cell: (row) => <span class="mono">{row.sandboxId}</span>, width: 'minmax(178px, 1fr)' },
  { id: 'answer', header: 'Answer', value: (row) => row.responseStatus, width: '84px', align: 'right' },
  { id: 'attempts', header: 'Tries', value: (row) => row.attempts, width: '70px', align: 'right' },
  {
    id: 'error',
    header: 'Why not',
    value: (row) => row.error,
    cell: (row) =>
      row.error && (
        <span class="bad-text" title={row.error}>
          {row.error}
        </span>
      ),
    width: 'minmax(120px, 2fr)',
  },
  {
    id: 'at',
    header: 'Last try',
    value: (row) => -new Date(row.lastAttemptAt ?? row.createdAt).getTime(),
    cell: (row) => (row.lastAttemptAt ? <span title={dateTime(row.lastAttemptAt)}>{age(row.lastAttemptAt)} ago</span> : <span class="faint">not yet</span>),
    width: '110px',
    align: 'right',
    searched: false,
  },
];

function DeliveryView({ delivery, onClose, onDone }: { delivery: Delivery; onClose: () => void; onDone: () => void }) {
  const [busy, setBusy] = useState(false);
  const again = async () => {
    setBusy(true);
    await attempt(async () => {
      await post(path`/events/webhooks/${delivery.webhookId}/deliveries/${delivery.id}/redeliver`);
      toast('It is sent once more.');
      onDone();
      onClose();
    });
    setBusy(false);
  };
  return (
    <Dialog title="Delivery" wide onClose={onClose}>
      <div class="column">
        <Facts
          of={[
            ['State', <StateBadge state={delivery.status} />],
            ['Id', <span class="mono">{delivery.id}</span>],
            ['Event', delivery.eventType],
            [
              'Sandbox',
              delivery.sandboxId && (
                <a class="mono" href={`#/sandboxes/${encodeURIComponent(delivery.sandboxId)}`}>
                  {delivery.sandboxId}
                </a>
              ),
            ],
            ['Answer', delivery.responseStatus],
            ['Why not', delivery.error && <span class="bad-text">{delivery.error}</span>],
            ['Tries', delivery.attempts],
            ['Made', dateTime(delivery.createdAt)],
            ['Last try', delivery.lastAttemptAt && dateTime(delivery.lastAttemptAt)],
            ['Next try', delivery.nextAttemptAt && delivery.status === 'pending' ? `in ${left(delivery.nextAttemptAt)}` : undefined],
          ]}
        />
        <h3>Body</h3>
        {delivery.event ? <JsonView value={delivery.event} label="The event that was sent" /> : <Note>The event is no longer kept: it is older than seven days.</Note>}
        <div class="form-foot">
          <Button onClick={onClose}>Close</Button>
          <Button write kind="primary" icon="refresh" busy={busy} onClick={() => void again()}>
            Send it once more
          </Button>
        </div>
      </div>
    </Dialog>
  );
}

function Deliveries({ id }: { id: string }) {
  const [shown, setShown] = useState<Delivery | null>(null);
  const [limit, setLimit] = useState(PAGE_ROWS);
  const load = async (signal: AbortSignal) => {
    const rows: Delivery[] = [];
    for (let offset = 0; offset < limit; offset += PAGE_ROWS) {
      const page = await get<Delivery[]>(path`/events/webhooks/${id}/deliveries`, { limit: PAGE_ROWS, offset, events: true }, { signal });
      rows.push(...page);
      if (page.length < PAGE_ROWS) break;
    }
    return rows;
  };
  const { data, error, loading, reload } = useLoad(load, [id, limit], AGAIN_MS);
  useEffect(() => onEvent(() => setTimeout(() => void reload(), AFTER_EVENT_MS)), []);
  const rows = data ?? [];
  if (loading) return <Spinner label="Loading the deliveries" />;
  return (
    <>
      <ErrorNote error={error} />
      <Table
        label="Deliveries"
        columns={columns}
        rows={rows}
        rowKey={(row) => row.id}
        sort={{ id: 'at' }}
        onOpen={setShown}
        foot={
          rows.length >= limit && (
            <Button small onClick={() => setLimit(limit * 4)}>
              Load more
            </Button>
          )
        }
        empty={
          <EmptyState title="Nothing was sent yet" line="atoll run echo hello">
            A delivery is listed for each event of a sandbox. Test it with the button above, or make something happen:
          </EmptyState>
        }
      />
      {shown && <DeliveryView delivery={shown} onClose={() => setShown(null)} onDone={() => void reload()} />}
    </>
  );
}

export default function WebhookPage({ params }: { params: Record<string, string> }) {
  const id = decodeURIComponent(params.id ?? '');
  const [editing, setEditing] = useState(false);
  const [testing, setTesting] = useState(false);
  const [tested, setTested] = useState<Tested | null>(null);
  const hook = useLoad((signal) => get<Webhook>(path`/events/webhooks/${id}`, undefined, { signal }), [id], AGAIN_MS);
  const again = useMemo(() => () => void hook.reload(), [id]);
  const test = async () => {
    setTesting(true);
    setTested(null);
    await attempt(async () => setTested(await post<Tested>(path`/events/webhooks/${id}/test`)));
    setTesting(false);
  };
  const remove = (one: Webhook) =>
    confirm({
      title: `Delete ${one.name}?`,
      text: 'Nothing is sent to it any more, and its deliveries are forgotten.',
      action: 'Delete',
      danger: true,
      run: async () => {
        await del(path`/events/webhooks/${id}`);
        toast(`${one.name} is deleted.`);
        navigate('/webhooks');
      },
    });
  const toggle = (one: Webhook) =>
    attempt(async () => {
      await patch(path`/events/webhooks/${id}`, { enabled: !one.enabled });
      await hook.reload();
    });
  const data = hook.data;
  if (hook.loading) return <Spinner label="Loading the webhook" />;
  return (
    <div class="page fill">
      <PageHead
        title={
          <>
            <a class="muted" href="#/webhooks">
              Webhooks
            </a>{' '}
            / {data?.name ?? id}
          </>
        }
        sub={data && <StateBadge state={data.enabled ? 'enabled' : 'off'} />}
      >
        {data && (
          <>
            <Button write kind="primary" icon="play" busy={testing} onClick={() => void test()}>
              Send a test
            </Button>
            <Button write onClick={() => void toggle(data)}>
              {data.enabled ? 'Turn off' : 'Turn on'}
            </Button>
            <Button write icon="edit" onClick={() => setEditing(true)}>
              Change
            </Button>
            <Button write kind="danger" icon="trash" onClick={() => void remove(data)}>
              Delete
            </Button>
          </>
        )}
      </PageHead>
      <ErrorNote error={hook.error} />
      {tested && (
        <Note tone={tested.delivered ? 'ok' : 'bad'}>
          {tested.delivered
            ? `The test was delivered: the receiver answered ${tested.responseStatus} after ${millis(tested.durationMs)}.`
            : `The test was not delivered${tested.responseStatus ? ` (the receiver answered ${tested.responseStatus})` : ''}: ${tested.error ?? ''}`}
        </Note>
      )}
      {data && (
        <Card>
          <Facts
            of={[
              ['Address', <span class="mono">{data.url}</span>],
              [
                plural(data.events.length, 'event'),
                data.events.map((type) => (
                  <>
                    <span class="tag">{shortType(type)}</span>{' '}
                  </>
                )),
              ],
              ['Created', <span title={dateTime(data.createdAt)}>{age(data.createdAt)} ago</span>],
            ]}
          />
        </Card>
      )}
      {data && <Deliveries id={id} />}
      {editing && data && <EditWebhook hook={data} onClose={() => setEditing(false)} onDone={again} />}
    </div>
  );
}
