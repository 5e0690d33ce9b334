// The head of a sandbox's page: what it is, how long it lives, and what can be done to it.
import { useState } from 'preact/hooks';
import { navigate } from 'wouter-preact/use-hash-location';
import { post, path, sentence } from '../../lib/api';
import { age, bytes, dateTime, left, megabytes, plural } from '../../lib/format';
import { kill, pause, resume, RESUME_S } from '../../lib/sandboxes';
import { canWrite } from '../../lib/session';
import { Button, EmptyState, Field, Note, StateBadge } from '../../ui/basics';
import { confirm, Dialog } from '../../ui/dialog';
import { Form } from '../../ui/form';
import { Icon } from '../../ui/icons';
import { attempt, toast } from '../../ui/toast';
import { type Box } from './box';

const TIMES: [number, string][] = [
  [300, '5 minutes'],
  [900, '15 minutes'],
  [3600, '1 hour'],
  [4 * 3600, '4 hours'],
  [24 * 3600, '24 hours'],
];

function Times({ id, hint, value, onChange }: { id: string; hint?: string; value: number; onChange: (seconds: number) => void }) {
  return (
    <select id={id} aria-describedby={hint} value={value} onChange={(event) => onChange(Number(event.currentTarget.value))}>
      {TIMES.map(([seconds, label]) => (
        <option value={seconds}>{label}</option>
      ))}
    </select>
  );
}

interface AskProps {
  box: Box;
  onClose: () => void;
}

function SetTime({ box, onClose }: AskProps) {
  const [seconds, setSeconds] = useState(3600);
  const then = box.detail.value?.lifecycle?.onTimeout === 'pause' ? 'paused' : 'killed';
  return (
    <Dialog title="How long it runs" onClose={onClose}>
      <Form
        submit="Set"
        onCancel={onClose}
        onSubmit={async () => {
          await post(path`/sandboxes/${box.id}/timeout`, { timeout: seconds });
          await box.load();
          onClose();
        }}
      >
        <Field label="From now on it runs for" hint={`Also when that is sooner than before. Then it is ${then}.`}>
          {(id, hint) => <Times id={id} hint={hint} value={seconds} onChange={setSeconds} />}
        </Field>
      </Form>
    </Dialog>
  );
}

function Snapshot({ box, onClose }: AskProps) {
  const [name, setName] = useState('');
  return (
    <Dialog title="Make a snapshot" onClose={onClose}>
      <Form
        submit="Make a snapshot"
        onCancel={onClose}
        onSubmit={async () => {
          const made = await post<{ snapshotID: string; names?: string[] }>(path`/sandboxes/${box.id}/snapshots`, name.trim() ? { name: name.trim() } : {});
          onClose();
          toast(`Snapshot ${made.names?.[0] ?? made.snapshotID} is made.`);
        }}
      >
        <Field label="Name" hint="Sandboxes are created from it by this name. Without one it has an id.">
          {(id, hint) => (
            <input id={id} aria-describedby={hint} value={name} spellcheck={false} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />
          )}
        </Field>
      </Form>
    </Dialog>
  );
}

interface ForkResult {
  sandbox?: { sandboxID: string };
  error?: { code: number; message: string };
}

function Fork({ box, onClose }: AskProps) {
  const [count, setCount] = useState(1);
  const [seconds, setSeconds] = useState(900);
  const fork = async () => {
    const results = await post<ForkResult[]>(path`/sandboxes/${box.id}/fork`, { count, timeout: seconds });
    const refused = results.find((result) => result.error)?.error;
    const made = results.filter((result) => result.sandbox);
    if (made.length === 0 && refused) throw new Error(refused.message);
    onClose();
    toast(`${plural(made.length, 'copy', 'copies')} made.`);
    if (refused) toast(refused.message, 'bad');
    navigate(`/sandboxes/${encodeURIComponent(box.id)}/family`);
  };
  return (
    <Dialog title="Fork" onClose={onClose}>
      <Form submit="Fork" onCancel={onClose} onSubmit={fork} disabled={!(count >= 1)}>
        <div class="muted">A copy begins with the processes and files that the sandbox has now.</div>
        <div class="two">
          <Field label="Copies">
            {(id) => <input id={id} type="number" min={1} max={100} value={count} onInput={(event) => setCount(event.currentTarget.valueAsNumber)} />}
          </Field>
          <Field label="Each runs for">{(id) => <Times id={id} value={seconds} onChange={setSeconds} />}</Field>
        </div>
      </Form>
    </Dialog>
  );
}

const askKill = (box: Box) =>
  confirm({
    title: 'Kill the sandbox',
    text: (
      <>
        Its processes end and its files are deleted: <span class="mono">{box.id}</span>
      </>
    ),
    action: 'Kill',
    danger: true,
    run: () => kill(box.id),
  });

async function wake(box: Box) {
  await resume(box.id);
  toast(`It runs for ${plural(RESUME_S / 60, 'minute')}: Set time changes that.`);
}

function Actions({ box }: { box: Box }) {
  const [busy, setBusy] = useState<string | null>(null);
  const [dialog, setDialog] = useState<'snapshot' | 'fork' | 'time' | null>(null);
  const state = box.state.value;
  const run = async (name: string, action: () => Promise<unknown>) => {
    setBusy(name);
    await attempt(async () => {
      await action();
      await box.load();
    });
    setBusy(null);
  };
  if (!canWrite.value || state === 'gone' || state === null) return null;
  const off = busy !== null;
  const close = () => setDialog(null);
  return (
    <div class="actions">
      {state === 'running' && (
        <>
          <Button icon="clock" disabled={off} onClick={() => setDialog('time')}>
            Set time
          </Button>
          <Button icon="pause" disabled={off} busy={busy === 'pause'} onClick={() => run('pause', () => pause(box.id))}>
            Pause
          </Button>
          <Button icon="snapshots" disabled={off} onClick={() => setDialog('snapshot')}>
            Snapshot
          </Button>
          <Button icon="fork" disabled={off} onClick={() => setDialog('fork')}>
            Fork
          </Button>
        </>
      )}
      {state === 'paused' && (
        <Button kind="primary" icon="play" disabled={off} busy={busy === 'resume'} onClick={() => run('resume', () => wake(box))}>
          Resume
        </Button>
      )}
      <Button kind="danger" icon="trash" disabled={off} onClick={() => void askKill(box)}>
        Kill
      </Button>
      {dialog === 'time' && <SetTime box={box} onClose={close} />}
      {dialog === 'snapshot' && <Snapshot box={box} onClose={close} />}
      {dialog === 'fork' && <Fork box={box} onClose={close} />}
    </div>
  );
}

function Line({ box }: { box: Box }) {
  const detail = box.detail.value;
  const end = box.end.value;
  if (!detail) return null;
  const running = box.state.value === 'running';
  const metadata = Object.entries(detail.metadata ?? {});
  return (
    <div class="box-line">
      <span>
        <span class="faint">Template</span> {detail.alias ?? detail.templateID}
      </span>
      <span title={dateTime(detail.createdAt ?? detail.startedAt)}>
        <span class="faint">Age</span> {age(detail.createdAt ?? detail.startedAt)}
      </span>
      {running && (
        <span title={dateTime(detail.endAt)}>
          <span class="faint">{detail.lifecycle?.onTimeout === 'pause' ? 'Pauses in' : 'Ends in'}</span> {left(detail.endAt)}
        </span>
      )}
      {end && (
        <span title={dateTime(end.at)}>
          <span class="faint">Ended</span> {age(end.at)} ago
        </span>
      )}
      <span>
        <span class="faint">Has</span> {plural(detail.cpuCount, 'cpu')}, {megabytes(detail.memoryMB)} memory, {bytes(detail.diskSizeMB * 1024 * 1024)} disk
      </span>
      {metadata.length > 0 && (
        <span class="metadata">
          {metadata.map(([name, value]) => (
            <span class="tag ellipsis" title={`${name}=${value}`}>
              {name}={value}
            </span>
          ))}
        </span>
      )}
    </div>
  );
}

export function Head({ box }: { box: Box }) {
  const state = box.state.value;
  return (
    <header class="box-head">
      <div class="page-head">
        <a class="button quiet icon-only" href="#/sandboxes" aria-label="All sandboxes" title="All sandboxes">
          <Icon name="left" />
        </a>
        <h1 class="mono">{box.id}</h1>
        {state && <StateBadge state={state === 'gone' ? 'killed' : state} />}
        <Actions box={box} />
      </div>
      <Line box={box} />
      {state !== null && state !== 'gone' && box.error.value && <Note tone="bad">{box.error.value}</Note>}
    </header>
  );
}

/** In place of a tab that needs a running sandbox. */
export function Paused({ box }: { box: Box }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const go = async () => {
    setBusy(true);
    setError(null);
    try {
      await wake(box);
      await box.load();
    } catch (thrown) {
      setError(sentence(thrown));
    }
    setBusy(false);
  };
  return (
    <EmptyState title="The sandbox is paused" line={`atoll resume ${box.id}`}>
      <div class="column">
        <div>Its processes and files wait. Figures, logs and events can be read meanwhile.</div>
        <div>
          <Button write kind="primary" icon="play" busy={busy} onClick={go}>
            Resume
          </Button>
        </div>
        {error && <Note tone="bad">{error}</Note>}
      </div>
    </EmptyState>
  );
}

export function Gone({ box }: { box: Box }) {
  const end = box.end.value;
  return (
    <EmptyState title="The sandbox is gone">
      <div class="column">
        {end ? (
          <div>
            It ended {dateTime(end.at)}
            {end.reason && `: ${end.reason}`}.
          </div>
        ) : (
          <div>{box.error.value}</div>
        )}
        <div>
          What is kept of it for seven days is in <a href={`#/sandboxes/${encodeURIComponent(box.id)}/events`}>Events</a> and{' '}
          <a href={`#/sandboxes/${encodeURIComponent(box.id)}/logs`}>Logs</a>.
        </div>
      </div>
    </EmptyState>
  );
}
