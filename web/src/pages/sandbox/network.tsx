// Where a sandbox has been, where it was refused and by which rule, and the rules themselves.
import { useState } from 'preact/hooks';
import { get, path, put } from '../../lib/api';
import { age, bytes, count, dateTime } from '../../lib/format';
import { canWrite } from '../../lib/session';
import { Badge, Button, Card, EmptyState, ErrorNote, Facts, Field, Note, SearchField, Spinner } from '../../ui/basics';
import { Dialog } from '../../ui/dialog';
import { Form } from '../../ui/form';
import { Table, type Column } from '../../ui/table';
import { toast } from '../../ui/toast';
import type { Box } from './box';
import { usePolled } from './polled';

interface Connection {
  host: string | null;
  address: string | null;
  port: number | null;
  verdict: 'reached' | 'refused' | 'failed' | string;
  rule: string | null;
  count: number;
  bytesSent: number;
  bytesReceived: number;
  firstAt: string;
  lastAt: string;
}

interface Answer {
  connections: Connection[];
  dropped?: number;
  open?: number;
  names?: number;
  namesRefused?: number;
  bytesSent?: number;
  bytesReceived?: number;
}

interface Rules {
  allowOut?: string[];
  denyOut?: string[];
  rules?: Record<string, unknown>;
  egressProxy?: { address?: string; username?: string } | null;
  dnsServers?: string[];
  [more: string]: unknown;
}

const ASK_MS = 3000;
const TONES: Record<string, 'ok' | 'bad' | 'warn'> = { reached: 'ok', refused: 'bad', failed: 'warn' };
const words = (text: string) => text.split(/[\s,]+/).filter(Boolean);

/* Rules come by the names of the API's fields. */
function ruleText(rule: string | null): string {
  if (!rule) return '';
  if (rule.startsWith('allow_internet_access')) return 'No internet';
  if (rule === 'denyOut 0.0.0.0/0') return 'Denied: everything';
  return rule.replace(/^denyOut /, 'Denied: ').replace(/^allowOut /, 'Allowed: ');
}

const isAddress = (word: string) => /^[0-9a-f.:]+(\/\d+)?$/i.test(word);
const isName = (word: string) => /\.[a-z][a-z0-9-]*$/i.test(word) || word === '*';

const columns: Column<Connection>[] = [
  { id: 'verdict', header: 'Outcome', value: (row) => row.verdict, cell: (row) => <Badge tone={TONES[row.verdict]}>{row.verdict}</Badge>, width: '94px' },
  {
    id: 'to',
    header: 'To',
    value: (row) => `${row.host ?? ''} ${row.address ?? ''}`,
    cell: (row) => (
      <span class="mono" title={`${row.host ?? ''} ${row.address ?? ''}`}>
        {row.host ?? row.address ?? '–'}
      </span>
    ),
    width: 'minmax(150px, 2fr)',
  },
  {
    id: 'address',
    header: 'Address',
    value: (row) => (row.host && row.host !== row.address ? row.address : undefined),
    cell: (row) => (
      <span class="mono faint" title={row.address ?? ''}>
        {row.host && row.host !== row.address && row.address}
      </span>
    ),
    width: '132px',
  },
  { id: 'port', header: 'Port', value: (row) => row.port, width: '60px', align: 'right' },
  { id: 'rule', header: 'Rule', value: (row) => ruleText(row.rule), cell: (row) => <span title={ruleText(row.rule)}>{ruleText(row.rule)}</span>, width: 'minmax(140px, 2fr)' },
  { id: 'count', header: 'Times', value: (row) => row.count, cell: (row) => count(row.count), width: '66px', align: 'right', searched: false },
  { id: 'sent', header: 'Sent', value: (row) => row.bytesSent, cell: (row) => bytes(row.bytesSent), width: '80px', align: 'right', searched: false },
  { id: 'received', header: 'Received', value: (row) => row.bytesReceived, cell: (row) => bytes(row.bytesReceived), width: '92px', align: 'right', searched: false },
  {
    id: 'last',
    header: 'Last',
    value: (row) => -new Date(row.lastAt).getTime(),
    cell: (row) => <span title={`${dateTime(row.firstAt)} to ${dateTime(row.lastAt)}`}>{age(row.lastAt)} ago</span>,
    width: '92px',
    align: 'right',
    searched: false,
  },
];

/* The whole is replaced, and what is left out is cleared: so what the form does not show is sent along. */
function RulesForm({ box, now, onClose }: { box: Box; now: Rules; onClose: () => void }) {
  const [allow, setAllow] = useState((now.allowOut ?? []).join('\n'));
  const [deny, setDeny] = useState((now.denyOut ?? []).join('\n'));
  const [internet, setInternet] = useState(box.detail.value?.allowInternetAccess !== false);
  const proxy = now.egressProxy?.username !== undefined;
  const save = async () => {
    const name = words(deny).find(isName);
    if (name) throw new Error(`Only addresses and blocks can be denied, and ${name} is a name. To let the sandbox reach some names alone, deny 0.0.0.0/0 and list them as allowed.`);
    const allowed = words(allow).find(isName);
    if (allowed && words(deny).every(isAddress) && !words(deny).includes('0.0.0.0/0')) throw new Error(`${allowed} is a name, and names can be allowed only where everything else is denied: write 0.0.0.0/0 below Denied.`);
    const kept: Rules = {};
    if (now.rules) kept.rules = now.rules;
    if (now.dnsServers) kept.dnsServers = now.dnsServers;
    if (now.egressProxy) kept.egressProxy = now.egressProxy;
    await put(path`/sandboxes/${box.id}/network`, {
      ...kept,
      allowOut: words(allow),
      denyOut: words(deny),
      ...(internet ? {} : { allow_internet_access: false }),
    });
    await box.load();
    onClose();
    toast('The new rules hold for new connections.');
  };
  return (
    <Dialog title="Rules for outgoing traffic" onClose={onClose}>
      <Form submit="Use these rules" onSubmit={save} onCancel={onClose}>
        <label class="check">
          <input type="checkbox" checked={internet} onChange={(event) => setInternet(event.currentTarget.checked)} />
          <span>The sandbox may reach the internet, but for what is denied</span>
        </label>
        <Field label="Allowed" hint="Addresses, blocks and domains, one to a line: 10.1.0.0/16, pypi.org, *.example.com. Domains need 0.0.0.0/0 among the denied.">
          {(id, hint) => <textarea id={id} aria-describedby={hint} rows={4} spellcheck={false} value={allow} onInput={(event) => setAllow(event.currentTarget.value)} />}
        </Field>
        <Field label="Denied" hint="Addresses and blocks. 0.0.0.0/0 denies all that is not allowed.">
          {(id, hint) => <textarea id={id} aria-describedby={hint} rows={3} spellcheck={false} value={deny} onInput={(event) => setDeny(event.currentTarget.value)} />}
        </Field>
        {proxy && <Note tone="warn">The proxy of this sandbox has a password, which the daemon never shows: it is lost with new rules.</Note>}
      </Form>
    </Dialog>
  );
}

function list(entries: string[] | undefined) {
  if (!entries?.length) return undefined;
  return (
    <span class="row wrap">
      {entries.slice(0, 50).map((entry) => (
        <span class="tag mono">{entry}</span>
      ))}
      {entries.length > 50 && <span class="faint">and {entries.length - 50} more</span>}
    </span>
  );
}

function reach(internet: boolean | null | undefined, now: Rules): string {
  const nothing = internet === false || now.denyOut?.includes('0.0.0.0/0');
  if (nothing) return now.allowOut?.length ? 'only what is allowed' : 'nothing';
  return now.denyOut?.length ? 'all but what is denied' : 'all of it';
}

function RulesCard({ box }: { box: Box }) {
  const [editing, setEditing] = useState(false);
  const detail = box.detail.value;
  const now = (detail?.network ?? {}) as Rules;
  if (!detail) return null;
  const changed = Object.keys(now.rules ?? {});
  return (
    <Card
      title="Rules"
      actions={
        box.state.value === 'running' && (
          <Button write small icon="edit" onClick={() => setEditing(true)}>
            Change
          </Button>
        )
      }
    >
      <Facts
        of={[
          ['Internet', reach(detail.allowInternetAccess, now)],
          ['Allowed', list(now.allowOut)],
          ['Denied', list(now.denyOut)],
          ['Requests changed', list(changed)],
          ['Proxy', now.egressProxy?.address],
          ['DNS servers', list(now.dnsServers)],
        ]}
      />
      {editing && <RulesForm box={box} now={now} onClose={() => setEditing(false)} />}
    </Card>
  );
}

export default function NetworkTab({ box }: { box: Box }) {
  const [filter, setFilter] = useState('');
  const [only, setOnly] = useState('');
  const gone = box.state.value === 'gone';
  const { value, error } = usePolled((signal) => get<Answer>(path`/sandboxes/${box.id}/connections`, undefined, { signal }), ASK_MS);
  const rows = (value?.connections ?? []).filter((row) => only === '' || row.verdict === only);
  const refused = (value?.connections ?? []).filter((row) => row.verdict === 'refused').length;
  return (
    <>
      <RulesCard box={box} />
      <ErrorNote error={gone ? null : error} />
      {!value && !error && !gone && <Spinner label="Asking for the connections" />}
      {!value && gone && (
        <EmptyState title="No connections are kept">
          The daemon keeps the connections and the rules of a sandbox until it ends. Connections that were refused are in its{' '}
          <a href={`#/sandboxes/${encodeURIComponent(box.id)}/logs`}>logs</a>, for seven days.
        </EmptyState>
      )}
      {value && (
        <>
          <div class="row wrap">
            <SearchField label="Filter the connections" value={filter} onInput={setFilter} />
            <select class="input" aria-label="Outcome" value={only} onChange={(event) => setOnly(event.currentTarget.value)}>
              <option value="">Every outcome</option>
              <option>reached</option>
              <option>refused</option>
              <option>failed</option>
            </select>
            <span class="muted small">
              {value.open !== undefined && `${count(value.open)} open, `}
              {value.bytesSent !== undefined && `${bytes(value.bytesSent)} sent, ${bytes(value.bytesReceived)} received, `}
              {count(refused)} refused
            </span>
          </div>
          <Table
            label="Connections"
            columns={columns}
            rows={rows}
            rowKey={(row) => `${row.verdict} ${row.host} ${row.address} ${row.port} ${row.rule}`}
            filter={filter}
            sort={{ id: 'last' }}
            foot={!!value.dropped && `${count(value.dropped)} older entries are no longer kept.`}
            empty={
              only ? (
                <div class="empty">No connection had this outcome.</div>
              ) : (
                <EmptyState title="No connections" line="curl -sI https://example.com">
                  What the sandbox reaches, or is refused, appears here by itself. Try in {canWrite.value ? 'a terminal' : 'the sandbox'}:
                </EmptyState>
              )
            }
          />
        </>
      )}
    </>
  );
}
