// JSON in colours. It is made of text nodes: what a sandbox wrote stays text.
import type { ComponentChildren } from 'preact';
import { copyText, Button } from './basics';

const PART = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const COLORED_MAX = 100_000; // a long text is shown plain

function colored(text: string): ComponentChildren[] {
  if (text.length > COLORED_MAX) return [text];
  const parts: ComponentChildren[] = [];
  let from = 0;
  for (const found of text.matchAll(PART)) {
    if (found.index > from) parts.push(text.slice(from, found.index));
    const kind = found[1] ? (found[2] ? 'k' : 's') : found[3] ? 'l' : 'n';
    parts.push(<span class={kind}>{found[1] ?? found[0]}</span>, found[2] ?? '');
    from = found.index + found[0].length;
  }
  parts.push(text.slice(from));
  return parts;
}

export function JsonView({ value, label = 'JSON' }: { value: unknown; label?: string }) {
  const text = JSON.stringify(value, null, 2) ?? 'undefined';
  return (
    <div class="column">
      <pre class="json" tabIndex={0} aria-label={label}>
        {colored(text)}
      </pre>
      <div class="row">
        <Button small icon="copy" onClick={() => copyText(text)}>
          Copy
        </Button>
      </div>
    </div>
  );
}
