// Forms that send something and show the daemon's sentence when it is refused.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { sentence } from '../lib/api';
import { Button, ErrorNote } from './basics';

interface FormProps {
  submit: string;
  /** Sends it. What it throws is shown; the form stays as it is. */
  onSubmit: () => Promise<void>;
  onCancel?: () => void;
  danger?: boolean;
  disabled?: boolean;
  children?: ComponentChildren;
}

export function Form({ submit, onSubmit, onCancel, danger, disabled, children }: FormProps) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const go = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await onSubmit();
    } catch (thrown) {
      setError(sentence(thrown));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form class="form" onSubmit={go}>
      {children}
      <ErrorNote error={error} />
      <div class="form-foot">
        {onCancel && <Button onClick={onCancel}>Cancel</Button>}
        <Button type="submit" kind={danger ? 'danger' : 'primary'} busy={busy} disabled={disabled}>
          {submit}
        </Button>
      </div>
    </form>
  );
}

export type Pair = [string, string];

/** Names with values: metadata, environment, headers. */
export function Pairs({ label, value, onChange, secret }: { label: string; value: Pair[]; onChange: (next: Pair[]) => void; secret?: boolean }) {
  const set = (at: number, side: 0 | 1, text: string) =>
    onChange(value.map((pair, i) => (i === at ? (side === 0 ? [text, pair[1]] : [pair[0], text]) : pair)));
  const box = useRef<HTMLDivElement>(null);
  const added = useRef(false);
  useEffect(() => {
    if (added.current) box.current?.querySelector<HTMLInputElement>('.pair:nth-last-child(2) input')?.focus();
    added.current = false;
  }, [value.length]);
  const add = () => {
    added.current = true;
    onChange([...value, ['', '']]);
  };
  return (
    <div class="field" role="group" aria-label={label} ref={box}>
      <span class="label">{label}</span>
      <div class="pairs">
        {value.map((pair, i) => (
          <div class="pair" key={i}>
            <input value={pair[0]} placeholder="name" aria-label={`${label}: name ${i + 1}`} spellcheck={false} onInput={(e) => set(i, 0, e.currentTarget.value)} />
            <input value={pair[1]} placeholder="value" aria-label={`${label}: value ${i + 1}`} spellcheck={false} type={secret ? 'password' : 'text'} autocomplete="off" onInput={(e) => set(i, 1, e.currentTarget.value)} />
            <Button kind="quiet" icon="close" label={`Remove ${pair[0] || 'this line'}`} onClick={() => onChange(value.filter((_, at) => at !== i))} />
          </div>
        ))}
        <div>
          <Button small icon="plus" onClick={add}>
            Add
          </Button>
        </div>
      </div>
    </div>
  );
}

export const fromPairs = (pairs: Pair[]): Record<string, string> | undefined => {
  const named = pairs.filter(([name]) => name !== '');
  return named.length ? Object.fromEntries(named) : undefined;
};
