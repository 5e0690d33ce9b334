// Terminals of a sandbox, in tabs. They stay when another part of the page is looked at.
import { signal, type Signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { sentence } from '../../../lib/api';
import { canWrite } from '../../../lib/session';
import { Button, EmptyState, ErrorNote, Field } from '../../../ui/basics';
import { Dialog } from '../../../ui/dialog';
import { Form } from '../../../ui/form';
import { attempt, toast } from '../../../ui/toast';
import type { Box } from '../box';
import { Session, TAG, type Wanted } from './session';

/* A browser opens six connections to a daemon without HTTP/2; each stream holds one of them. */
const STREAMS_MAX = 2;

interface Terminals {
  list: Signal<Session[]>;
  at: Signal<Session | null>;
  asked: boolean;
}

const kept = new WeakMap<Box, Terminals>();

function terminalsOf(box: Box): Terminals {
  let found = kept.get(box);
  if (!found) kept.set(box, (found = { list: signal([]), at: signal(null), asked: false }));
  return found;
}

interface Listed {
  pid: number;
  tag?: string;
}

/* Shells of the dashboard that ran before this page was loaded. */
async function running(box: Box): Promise<Wanted[]> {
  const answer = await box.agent().unary<{ processes?: Listed[] }>('process.Process/List', {});
  return (answer.processes ?? [])
    .filter((process) => process.tag?.startsWith(TAG))
    .map((process) => ({ pid: process.pid, user: process.tag!.slice(TAG.length + 1) || 'user' }));
}

const shownAt = new Map<Session, number>();
let turn = 0;

/* The streams of those that were not looked at for longest are ended. */
function spare(all: Session[]): void {
  const streaming = all.filter((session) => session.phase.value === 'live' || session.phase.value === 'reconnecting');
  streaming.sort((a, b) => (shownAt.get(b) ?? 0) - (shownAt.get(a) ?? 0));
  streaming.slice(STREAMS_MAX).forEach((session) => session.detach());
}

function Screen({ session, all }: { session: Session; all: Session[] }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const parent = place.current!;
    shownAt.set(session, ++turn);
    session.show(parent);
    session.terminal.focus();
    spare(all);
    const watch = new ResizeObserver(() => session.refit());
    watch.observe(parent);
    return () => {
      watch.disconnect();
      session.element.remove();
    };
  }, [session]);
  return <div class="terminal-place" ref={place} role="group" aria-label="Terminal" />;
}

function NewDialog({ onClose, onOpen }: { onClose: () => void; onOpen: (wanted: Wanted) => void }) {
  const [user, setUser] = useState('user');
  const [cwd, setCwd] = useState('');
  return (
    <Dialog title="New terminal" onClose={onClose}>
      <Form
        submit="Open"
        onCancel={onClose}
        disabled={user.trim() === ''}
        onSubmit={async () => {
          onOpen({ user: user.trim(), cwd: cwd.trim() || undefined });
          onClose();
        }}
      >
        <div class="two">
          <Field label="User">
            {(id) => (
              <>
                <input id={id} list={`${id}-users`} value={user} spellcheck={false} autocomplete="off" onInput={(event) => setUser(event.currentTarget.value)} />
                <datalist id={`${id}-users`}>
                  <option value="user" />
                  <option value="root" />
                </datalist>
              </>
            )}
          </Field>
          <Field label="Directory" hint="Empty: the user's home.">
            {(id, hint) => (
              <input id={id} aria-describedby={hint} value={cwd} placeholder="/home/user" spellcheck={false} autocomplete="off" onInput={(event) => setCwd(event.currentTarget.value)} />
            )}
          </Field>
        </div>
      </Form>
    </Dialog>
  );
}

const WORDS = { starting: 'Starting …', live: '', detached: '', reconnecting: 'Connecting again …', ended: '' } as const;

function Foot({ session, onAgain }: { session: Session; onAgain: () => void }) {
  const phase = session.phase.value;
  return (
    <div class="terminal-foot" role="status" data-phase={phase}>
      <span class={phase === 'ended' ? 'warn-text' : 'muted'}>
        {WORDS[phase]} {session.note.value}
      </span>
      {phase === 'ended' && (
        <Button small icon="terminal" onClick={onAgain}>
          New terminal
        </Button>
      )}
      <span class="grow" />
      <span class="faint keys-hint">
        <kbd>Ctrl</kbd> <kbd>F6</kbd> leaves the terminal
      </span>
    </div>
  );
}

export default function TerminalTab({ box }: { box: Box }) {
  const terminals = terminalsOf(box);
  const [asking, setAsking] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const open = (wanted: Wanted) => {
    const session = new Session(box, wanted);
    terminals.list.value = [...terminals.list.value, session];
    terminals.at.value = session;
  };
  const close = (session: Session) => {
    void session.kill();
    const rest = terminals.list.value.filter((other) => other !== session);
    terminals.list.value = rest;
    if (terminals.at.value === session) terminals.at.value = rest[rest.length - 1] ?? null;
    session.dispose();
  };
  useEffect(() => {
    if (terminals.asked || !canWrite.value) return;
    terminals.asked = true;
    running(box).then(
      (found) => {
        if (found.length > 0) found.forEach(open);
        else open({ user: 'user' });
      },
      (thrown) => setError(sentence(thrown)),
    );
  }, []);

  const list = terminals.list.value;
  const at = terminals.at.value;
  if (!canWrite.value) {
    return <EmptyState title="A terminal changes the sandbox">This session may only read. Log in with a key that may write to open one.</EmptyState>;
  }
  const move = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (!step || !at) return;
    event.preventDefault();
    terminals.at.value = list[(list.indexOf(at) + step + list.length) % list.length]!;
  };
  return (
    <div class="terminals">
      <div class="terminal-bar">
        <div class="terminal-tabs" role="tablist" aria-label="Terminals" onKeyDown={move}>
          {list.map((session, i) => (
            <span class="terminal-tab" key={session.key}>
              <button type="button" role="tab" aria-selected={session === at} tabIndex={session === at ? 0 : -1} onClick={() => (terminals.at.value = session)}>
                <span class={`dot ${session.phase.value}`} />
                <span class="ellipsis">
                  {i + 1}: {session.title.value}
                </span>
              </button>
              <Button kind="quiet" small icon="close" label={`End terminal ${i + 1}`} onClick={() => close(session)} />
            </span>
          ))}
          <Button kind="quiet" small icon="plus" label="New terminal" onClick={() => open({ user: at?.wanted.user ?? 'user' })} />
          <Button kind="quiet" small icon="more" label="New terminal as another user or in a directory" onClick={() => setAsking(true)} />
        </div>
        <span class="grow" />
        {at && (
          <>
            <Button kind="quiet" small icon="copy" label="Copy the selection, or all of it" onClick={() => attempt(() => at.copy(), 'Copied.')} />
            {navigator.clipboard && (
              <Button kind="quiet" small icon="paste" label="Paste" onClick={() => at.paste().catch(() => toast('The browser does not allow to read the clipboard here: press Ctrl-V.', 'bad'))} />
            )}
          </>
        )}
      </div>
      <ErrorNote error={error} />
      {at ? (
        <>
          <Screen session={at} all={list} />
          <Foot session={at} onAgain={() => open({ user: at.wanted.user, cwd: at.wanted.cwd })} />
        </>
      ) : (
        <EmptyState title="No terminal" line={`atoll connect ${box.id}`}>
          <Button kind="primary" icon="terminal" onClick={() => open({ user: 'user' })}>
            New terminal
          </Button>
        </EmptyState>
      )}
      {asking && <NewDialog onClose={() => setAsking(false)} onOpen={open} />}
    </div>
  );
}
