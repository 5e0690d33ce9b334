// Short messages at the edge of the window. Errors stay longer.
import { signal } from '@preact/signals';
import { sentence } from '../lib/api';
import { Button } from './basics';

interface Message {
  id: number;
  text: string;
  tone: 'ok' | 'bad' | 'info';
}

const OK_MS = 4000;
const BAD_MS = 12_000;
const SHOWN_MAX = 5;
const messages = signal<Message[]>([]);
let last = 0;

function drop(id: number): void {
  messages.value = messages.value.filter((message) => message.id !== id);
}

export function toast(text: string, tone: Message['tone'] = 'ok'): void {
  const id = ++last;
  messages.value = [...messages.value, { id, text, tone }].slice(-SHOWN_MAX);
  setTimeout(() => drop(id), tone === 'bad' ? BAD_MS : OK_MS);
}

/** Runs it; what it throws becomes a message. */
export async function attempt(run: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await run();
    if (done) toast(done);
    return true;
  } catch (error) {
    toast(sentence(error), 'bad');
    return false;
  }
}

export function Toasts() {
  return (
    <div class="toasts" role="log" aria-live="polite" aria-label="Messages">
      {messages.value.map((message) => (
        <div class={`toast ${message.tone}`} key={message.id}>
          <div class="grow">{message.text}</div>
          <Button kind="quiet" small icon="close" label="Dismiss" onClick={() => drop(message.id)} />
        </div>
      ))}
    </div>
  );
}
