// Keyboard shortcuts: one key ("c"), or two after another ("g s"). `?` shows them all. They rest
// while somebody types into a field, a terminal or a dialog.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';

export interface Shortcut {
  keys: string;
  label: string;
  run: () => void;
}

export const shortcuts = signal<Shortcut[]>([]);
const PAIR_MS = 1200;
let first = '';
let firstAt = 0;

export function shortcut(keys: string, label: string, run: () => void): () => void {
  const entry = { keys, label, run };
  shortcuts.value = [...shortcuts.value, entry];
  return () => {
    shortcuts.value = shortcuts.value.filter((other) => other !== entry);
  };
}

/** A shortcut that lasts as long as the component does. */
export function useShortcut(keys: string, label: string, run: () => void, active = true): void {
  useEffect(() => (active ? shortcut(keys, label, run) : undefined), [keys, label, run, active]);
}

function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target.closest('input, textarea, select, dialog, [data-keys="own"]') !== null;
}

export function startKeys(): void {
  window.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || typing(event.target)) return;
    const pair = Date.now() - firstAt < PAIR_MS ? `${first} ${event.key}` : '';
    // The last one that was registered wins: a page's own before the shell's.
    const found = shortcuts.value.findLast((s) => s.keys === pair) ?? shortcuts.value.findLast((s) => s.keys === event.key);
    first = event.key;
    firstAt = Date.now();
    if (!found) return;
    event.preventDefault();
    first = '';
    found.run();
  });
}
