// The ports that programs of the sandbox listen on, with addresses that open in a new window. A port
// is another origin: a page there cannot read this one.
import { useState } from 'preact/hooks';
import { session } from '../../lib/session';
import { Button, copyText, EmptyState, ErrorNote, Field, Note, Spinner } from '../../ui/basics';
import { Icon } from '../../ui/icons';
import { Table, type Column } from '../../ui/table';
import { toast } from '../../ui/toast';
import type { Box } from './box';
import { shownName } from './files/tree';
import { usePolled } from './polled';

interface Port {
  port: number;
  address: string;
  internal: boolean;
  pid?: number;
  command?: string;
}

const ASK_MS = 3000;
const LOCAL = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** Browsers resolve names below localhost by themselves, so a daemon on this machine needs no DNS. */
export function addressOf(port: number, id: string, domain?: string | null): string {
  const here = location.port ? `:${location.port}` : '';
  if (LOCAL.test(location.hostname) || !domain) {
    const name = LOCAL.test(location.hostname) ? 'localhost' : location.hostname.replace(/^api\./, '');
    return `${location.protocol}//${port}-${id}.${name}${here}/`;
  }
  return `${location.protocol}//${port}-${id}.${domain.replace(/:\d+$/, '')}${here}/`;
}

function Go({ box, port }: { box: Box; port: number }) {
  const to = addressOf(port, box.id, session.value?.domain ?? box.detail.value?.domain);
  return (
    <span class="row">
      <a href={to} target="_blank" rel="noopener noreferrer" class="ellipsis">
        {to}
      </a>
      <Button kind="quiet" small icon="copy" label={`Copy the address of port ${port}`} onClick={() => copyText(to).then(() => toast('Copied.'))} />
    </span>
  );
}

/* The jail listens on port 1 for what goes out; no program of the sandbox does. */
const isOwn = (port: Port) => port.internal || (port.port === 1 && port.pid === undefined);

const once = (ports: Port[]): Port[] => {
  const seen = new Map<number, Port>();
  for (const port of ports) {
    const before = seen.get(port.port);
    if (before) seen.set(port.port, { ...before, ...port, address: `${before.address}, ${port.address}` });
    else seen.set(port.port, port);
  }
  return [...seen.values()];
};

function Other({ box }: { box: Box }) {
  const [text, setText] = useState('');
  const port = Number(text);
  const good = Number.isInteger(port) && port > 0 && port < 65536;
  const to = good ? addressOf(port, box.id, session.value?.domain ?? box.detail.value?.domain) : undefined;
  return (
    <div class="row wrap other-port">
      <Field label="Another port">
        {(id) => <input id={id} type="number" min={1} max={65535} value={text} placeholder="8000" onInput={(event) => setText(event.currentTarget.value)} />}
      </Field>
      {to && (
        <a class="button" href={to} target="_blank" rel="noopener noreferrer">
          <Icon name="external" />
          Open {to}
        </a>
      )}
    </div>
  );
}

export default function PortsTab({ box }: { box: Box }) {
  const { value, error } = usePolled(async (signal) => {
    const answer = await box.agent().json<{ ports: Port[]; truncated: boolean }>('GET', '/ports', undefined, { signal });
    return { ...answer, ports: once(answer.ports.filter((port) => !isOwn(port))) };
  }, ASK_MS);
  if (!value) return error ? <ErrorNote error={error} /> : <Spinner label="Asking for the ports" />;
  const columns: Column<Port>[] = [
    { id: 'port', header: 'Port', value: (row) => row.port, width: '80px', align: 'right' },
    { id: 'link', header: 'Address', value: (row) => row.port, cell: (row) => <Go box={box} port={row.port} />, width: 'minmax(340px, 3fr)', sortable: false, searched: false },
    { id: 'listens', header: 'Listens on', value: (row) => row.address, width: 'minmax(90px, 1fr)' },
    { id: 'pid', header: 'PID', value: (row) => row.pid, width: '76px', align: 'right' },
    { id: 'command', header: 'Command', value: (row) => row.command, cell: (row) => <span class="mono">{shownName(row.command ?? '')}</span>, width: 'minmax(160px, 2fr)' },
  ];
  const guarded = box.detail.value?.trafficAccessToken !== undefined;
  return (
    <>
      <ErrorNote error={error} />
      {guarded && (
        <Note tone="warn">
          Ports of this sandbox are not public: a request needs the header <code>E2B-Traffic-Access-Token</code>, which a link cannot send.
        </Note>
      )}
      <Other box={box} />
      <Table
        label="Ports"
        columns={columns}
        rows={value.ports}
        rowKey={(row) => String(row.port)}
        sort={{ id: 'port' }}
        foot={value.truncated && 'There are more ports than are shown.'}
        empty={
          <EmptyState title="Nothing listens" line="python3 -m http.server 8000">
            Start a server in a terminal; it appears here by itself:
          </EmptyState>
        }
      />
    </>
  );
}
