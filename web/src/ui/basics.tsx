// The small pieces: buttons, notes, badges, cards, fields, lines to copy.
import type { ComponentChildren, JSX } from 'preact';
import { useId, useState } from 'preact/hooks';
import { canWrite } from '../lib/session';
import { Icon, type IconName } from './icons';

type Tone = 'ok' | 'warn' | 'bad' | 'info';

export interface ButtonProps extends Omit<JSX.HTMLAttributes<HTMLButtonElement>, 'icon'> {
  kind?: 'primary' | 'danger' | 'quiet';
  small?: boolean;
  icon?: IconName;
  /** What it does, for a button that shows an icon alone. */
  label?: string;
  busy?: boolean;
  disabled?: boolean;
  type?: 'button' | 'submit';
  /** It changes something: sessions that may only read do not see it. */
  write?: boolean;
}

export function Button({ kind, small, icon, label, busy, write, children, disabled, type, ...rest }: ButtonProps) {
  if (write && !canWrite.value) return null;
  const alone = icon && !children;
  return (
    <button
      {...rest}
      type={type ?? 'button'}
      class={`button ${kind ?? ''} ${small ? 'small' : ''} ${alone ? 'icon-only' : ''}`}
      disabled={disabled || busy}
      aria-busy={busy || undefined}
      aria-label={label}
      title={label}
    >
      {busy ? <span class="spinner" aria-hidden="true" /> : icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** Shown only to sessions that may change something. */
export function Writable({ children }: { children: ComponentChildren }) {
  return canWrite.value ? <>{children}</> : null;
}

const NOTE_ICON: Record<Tone, IconName> = { ok: 'check', warn: 'warn', bad: 'warn', info: 'info' };

export function Note({ tone = 'info', children }: { tone?: Tone; children: ComponentChildren }) {
  return (
    <div class={`note ${tone}`} role={tone === 'bad' ? 'alert' : 'status'}>
      <Icon name={NOTE_ICON[tone]} />
      <div class="grow">{children}</div>
    </div>
  );
}

/** The daemon's sentence, if there is one. */
export function ErrorNote({ error }: { error: string | null | undefined }) {
  return error ? <Note tone="bad">{error}</Note> : null;
}

export function Badge({ tone, dot, children }: { tone?: Tone; dot?: boolean; children: ComponentChildren }) {
  return (
    <span class={`badge ${tone ?? ''}`}>
      {dot && <span class="dot" />}
      {children}
    </span>
  );
}

const STATES: Record<string, Tone | undefined> = {
  running: 'ok',
  ready: 'ok',
  uploaded: 'ok',
  success: 'ok',
  enabled: 'ok',
  delivered: 'ok',
  paused: 'info',
  pausing: 'info',
  resuming: 'info',
  starting: 'info',
  snapshotting: 'info',
  building: 'info',
  waiting: 'warn',
  pending: 'warn',
  error: 'bad',
  failed: 'bad',
  created: 'ok',
  resumed: 'ok',
  snapshotted: 'info',
  forked: 'info',
  updated: undefined,
  killed: undefined,
};

export function StateBadge({ state }: { state: string }) {
  return (
    <Badge tone={STATES[state]} dot>
      {state}
    </Badge>
  );
}

export function Spinner({ label = 'Loading' }: { label?: string }) {
  return (
    <div class="waiting" role="status">
      <span class="spinner" aria-hidden="true" />
      <span>{label} …</span>
    </div>
  );
}

export function Card(props: { title?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="card">
      {(props.title || props.actions) && (
        <div class="card-head">
          <h2>{props.title}</h2>
          {props.actions && <div class="actions row">{props.actions}</div>}
        </div>
      )}
      <div class="card-body">{props.children}</div>
    </section>
  );
}

export function Figure({ name, value, more, part }: { name: string; value: ComponentChildren; more?: ComponentChildren; part?: number }) {
  return (
    <div class="figure">
      <div class="name">{name}</div>
      <div class="value">{value}</div>
      {part !== undefined && <Meter part={part} label={name} />}
      {more && <div class="more">{more}</div>}
    </div>
  );
}

/** A bar that is filled to `part` (0 to 1). */
export function Meter({ part, label }: { part: number; label: string }) {
  const full = Math.max(0, Math.min(1, Number.isFinite(part) ? part : 0));
  const tone = full > 0.95 ? 'bad' : full > 0.85 ? 'warn' : '';
  return (
    <div class={`meter ${tone}`} role="meter" aria-label={label} aria-valuenow={Math.round(full * 100)} aria-valuemin={0} aria-valuemax={100}>
      <div style={{ width: `${full * 100}%` }} />
    </div>
  );
}

/** A list of names and what they are. Entries without a value are left out. */
export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of
        .filter(([, value]) => value !== undefined && value !== null && value !== '')
        .map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </>
        ))}
    </dl>
  );
}

/** A line that a click copies. */
export function CopyLine({ text, block, label = 'Copy' }: { text: string; block?: boolean; label?: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await copyText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <div class={`copy-line ${block ? 'block' : ''}`}>
      <code tabIndex={0}>{text}</code>
      <Button kind="quiet" small icon={done ? 'check' : 'copy'} label={done ? 'Copied' : label} onClick={copy} />
    </div>
  );
}

/** The clipboard needs a secure origin; over plain HTTP a selection does the same. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'sr-only';
  const dialogs = document.querySelectorAll('dialog[open]');
  (dialogs[dialogs.length - 1] ?? document.body).append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

export function EmptyState({ title, children, line }: { title: string; children?: ComponentChildren; line?: string }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children && <div>{children}</div>}
      {line && <CopyLine text={line} />}
    </div>
  );
}

interface FieldProps {
  label: string;
  hint?: ComponentChildren;
  children: (id: string, hintId: string | undefined) => ComponentChildren;
}

/** A label, its field and what to know about it: <Field label="Name">{(id) => <input id={id} …/>}</Field> */
export function Field({ label, hint, children }: FieldProps) {
  const id = useId();
  const hintId = hint ? `${id}-hint` : undefined;
  return (
    <div class="field">
      <label class="label" for={id}>
        {label}
      </label>
      {children(id, hintId)}
      {hint && (
        <span class="hint" id={hintId}>
          {hint}
        </span>
      )}
    </div>
  );
}

export function SearchField({ value, onInput, label, id }: { value: string; onInput: (text: string) => void; label: string; id?: string }) {
  return (
    <div class="search">
      <Icon name="search" />
      <input
        class="input"
        type="search"
        id={id}
        value={value}
        placeholder={label}
        aria-label={label}
        spellcheck={false}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </div>
  );
}

/** The head of a page. */
export function PageHead({ title, sub, children }: { title: ComponentChildren; sub?: ComponentChildren; children?: ComponentChildren }) {
  return (
    <header class="page-head">
      <h1>{title}</h1>
      {sub && <span class="sub">{sub}</span>}
      {children && <div class="actions">{children}</div>}
    </header>
  );
}
