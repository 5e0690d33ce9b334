// Every process of the sandbox, with signals.
import { useMemo, useRef, useState } from 'preact/hooks';
import { age, bytes, dateTime, duration, percent } from '../../lib/format';
import { canWrite } from '../../lib/session';
import { Button, ErrorNote, Facts, Field, SearchField, Spinner } from '../../ui/basics';
import { Dialog } from '../../ui/dialog';
import { Form } from '../../ui/form';
import { Table, type Column } from '../../ui/table';
import { toast } from '../../ui/toast';
import type { Box } from './box';
import { usePolled } from './polled';
import { shownName } from './files/tree';

interface Process {
  pid: number;
  ppid: number;
  user?: string;
  state: string;
  name: string;
  command: string;
  cpuSeconds: number;
  memoryBytes: number;
  startedAt: string;
  started: boolean;
  tag?: string;
  cpuPct?: number;
}

interface Answer {
  processes: Process[];
  total: number;
  truncated: boolean;
}

const ASK_MS = 2000;
const SIGNALS: [string, string][] = [
  ['SIGTERM', 'ends it, and lets it tidy up'],
  ['SIGKILL', 'ends it at once'],
  ['SIGINT', 'as Ctrl-C does'],
  ['SIGHUP', 'its terminal is gone, or: read the configuration again'],
  ['SIGQUIT', 'ends it with a core'],
  ['SIGSTOP', 'stops it until SIGCONT'],
  ['SIGCONT', 'lets it go on'],
  ['SIGUSR1', 'as the program means it'],
  ['SIGUSR2', 'as the program means it'],
];
const STATES: Record<string, string> = {
  R: 'runs',
  S: 'sleeps',
  D: 'waits for a device',
  T: 'stopped',
  t: 'traced',
  Z: 'ended',
  I: 'idle',
};

const columns: Column<Process>[] = [
  { id: 'pid', header: 'PID', value: (row) => row.pid, width: '76px', align: 'right' },
  { id: 'user', header: 'User', value: (row) => row.user, cell: (row) => shownName(row.user ?? ''), width: '84px' },
  { id: 'state', header: 'State', value: (row) => STATES[row.state] ?? row.state, width: '84px' },
  { id: 'cpu', header: 'CPU', value: (row) => row.cpuPct, cell: (row) => percent(row.cpuPct), width: '74px', align: 'right', searched: false },
  { id: 'time', header: 'CPU time', value: (row) => row.cpuSeconds, cell: (row) => duration(row.cpuSeconds), width: '88px', align: 'right', searched: false },
  { id: 'memory', header: 'Memory', value: (row) => row.memoryBytes, cell: (row) => bytes(row.memoryBytes), width: '96px', align: 'right', searched: false },
  {
    id: 'age',
    header: 'Age',
    value: (row) => -new Date(row.startedAt).getTime(),
    cell: (row) => <span title={dateTime(row.startedAt)}>{age(row.startedAt)}</span>,
    width: '84px',
    align: 'right',
    searched: false,
  },
  {
    id: 'command',
    header: 'Command',
    value: (row) => row.command,
    cell: (row) => (
      <span class="mono" title={shownName(row.command)}>
        {shownName(row.command)}
      </span>
    ),
    width: 'minmax(240px, 1fr)',
  },
];

function SignalForm({ box, process, onClose, onDone }: { box: Box; process: Process; onClose: () => void; onDone: () => void }) {
  const [signal, setSignal] = useState('SIGTERM');
  const send = async () => {
    await box.agent().json('POST', `/processes/${process.pid}/signal`, { signal });
    onClose();
    onDone();
    toast(`${signal} sent to ${process.pid}.`);
  };
  return (
    <Form submit="Send the signal" danger onCancel={onClose} onSubmit={send}>
      <Field label="Signal" hint={SIGNALS.find(([name]) => name === signal)?.[1]}>
        {(id, hint) => (
          <select id={id} aria-describedby={hint} value={signal} onChange={(event) => setSignal(event.currentTarget.value)}>
            {SIGNALS.map(([name]) => (
              <option>{name}</option>
            ))}
          </select>
        )}
      </Field>
    </Form>
  );
}

/* The share of a cpu since the last look. */
function withShare(rows: Process[], before: { at: number; seconds: Map<number, number> }): Process[] {
  const past = (Date.now() - before.at) / 1000;
  return rows.map((row) => {
    const then = before.seconds.get(row.pid);
    const used = then === undefined || past <= 0 ? undefined : ((row.cpuSeconds - then) / past) * 100;
    return { ...row, cpuPct: used === undefined ? undefined : Math.max(0, used) };
  });
}

export default function ProcessesTab({ box }: { box: Box }) {
  const [filter, setFilter] = useState('');
  const [open, setOpen] = useState<Process | null>(null);
  const before = useRef({ at: 0, seconds: new Map<number, number>() });
  const { value, error, again } = usePolled(async (signal) => {
    const answer = await box.agent().json<Answer>('GET', '/processes', undefined, { signal });
    const rows = withShare(answer.processes, before.current);
    before.current = { at: Date.now(), seconds: new Map(rows.map((row) => [row.pid, row.cpuSeconds])) };
    return { ...answer, processes: rows };
  }, ASK_MS);
  const all = useMemo<Column<Process>[]>(
    () =>
      canWrite.value
        ? [
            ...columns,
            {
              id: 'act',
              header: 'Signal',
              value: () => undefined,
              cell: (row) => row.pid !== 1 && <Button small kind="quiet" icon="events" label={`Signal process ${row.pid}`} onClick={() => setOpen(row)} />,
              width: '64px',
              sortable: false,
              searched: false,
            },
          ]
        : columns,
    [canWrite.value],
  );
  if (!value) return error ? <ErrorNote error={error} /> : <Spinner label="Asking for the processes" />;
  return (
    <>
      <div class="row wrap">
        <SearchField label="Filter the processes" value={filter} onInput={setFilter} />
      </div>
      <ErrorNote error={error} />
      <Table
        label="Processes"
        columns={all}
        rows={value.processes}
        rowKey={(row) => String(row.pid)}
        filter={filter}
        sort={{ id: 'pid' }}
        onOpen={setOpen}
        foot={value.truncated && `Only the first of ${value.total} processes are shown.`}
      />
      {open && (
        <Dialog title={`Process ${open.pid}`} onClose={() => setOpen(null)} wide>
          <div class="column">
            <Facts
              of={[
                ['Name', shownName(open.name)],
                ['Command', <code class="mono">{shownName(open.command)}</code>],
                ['Parent', open.ppid],
                ['User', shownName(open.user ?? '')],
                ['State', STATES[open.state] ?? open.state],
                ['Started', `${dateTime(open.startedAt)}${open.started ? ', by a client' : ''}`],
                ['Tag', open.tag && shownName(open.tag)],
              ]}
            />
            {canWrite.value && open.pid !== 1 && <SignalForm box={box} process={open} onClose={() => setOpen(null)} onDone={again} />}
          </div>
        </Dialog>
      )}
    </>
  );
}
