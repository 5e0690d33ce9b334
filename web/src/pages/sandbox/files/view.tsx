// A file: text to edit, a picture, or its first bytes.
import { useEffect, useRef, useState, type MutableRef } from 'preact/hooks';
import { isAbort, sentence } from '../../../lib/api';
import { bytes, dateTime } from '../../../lib/format';
import { languageOf } from '../../../lib/languages';
import { canWrite } from '../../../lib/session';
import { Button, ErrorNote, Note, Spinner } from '../../../ui/basics';
import { confirm, Dialog } from '../../../ui/dialog';
import { Editor } from '../../../ui/lazy';
import { attempt } from '../../../ui/toast';
import { download, saveAs } from './transfer';
import { nameOf, shownName, type Entry, type Tree } from './tree';

const TEXT_BYTES_MAX = 2 * 1024 * 1024;
const PICTURE_BYTES_MAX = 20 * 1024 * 1024;
const HEX_BYTES = 4096;
const PICTURES: Record<string, string> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  bmp: 'image/bmp',
  ico: 'image/x-icon',
  avif: 'image/avif',
  svg: 'image/svg+xml',
};

type Content = { kind: 'text'; text: string } | { kind: 'picture'; url: string } | { kind: 'bytes'; head: Uint8Array };

/* As data:, a picture that is opened in a window of its own is no document of this origin. */
function dataUrl(content: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(content);
  });
}

function asText(content: Uint8Array): string | null {
  if (content.includes(0)) return null;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content);
  } catch {
    return null;
  }
}

async function headOf(body: ReadableStream<Uint8Array>, most: number): Promise<Uint8Array> {
  const reader = body.getReader();
  const have: Uint8Array[] = [];
  let length = 0;
  while (length < most) {
    const { done, value } = await reader.read();
    if (done) break;
    have.push(value);
    length += value.length;
  }
  reader.cancel().catch(() => {});
  return new Uint8Array(await new Blob(have as BlobPart[]).arrayBuffer()).subarray(0, most);
}

async function load(tree: Tree, entry: Entry, signal: AbortSignal): Promise<Content> {
  const answer = await tree.box.agent().read(entry.path, tree.user.value, signal);
  const size = Number(entry.size ?? 0);
  const type = PICTURES[nameOf(entry.path).split('.').pop()?.toLowerCase() ?? ''];
  if (type && size <= PICTURE_BYTES_MAX) {
    return { kind: 'picture', url: await dataUrl(new Blob([await answer.arrayBuffer()], { type })) };
  }
  // A file below /proc has no size and may never end: only so much is read.
  const content = await headOf(answer.body!, TEXT_BYTES_MAX + 1);
  const text = content.length <= TEXT_BYTES_MAX ? asText(content) : null;
  return text === null ? { kind: 'bytes', head: content.subarray(0, HEX_BYTES) } : { kind: 'text', text };
}

function Hex({ head }: { head: Uint8Array }) {
  const lines: string[] = [];
  for (let at = 0; at < head.length; at += 16) {
    const part = [...head.subarray(at, at + 16)];
    const hex = part.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const text = part.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '.')).join('');
    lines.push(`${at.toString(16).padStart(8, '0')}  ${hex.padEnd(47)}  ${text}`);
  }
  return (
    <pre class="hex" tabIndex={0} aria-label="The first bytes of the file">
      {lines.join('\n')}
    </pre>
  );
}

/* Of a file with changes that are not saved, there are two to have. */
function WhichOne({ name, onSaved, onChanged, onClose }: { name: string; onSaved: () => void; onChanged: () => void; onClose: () => void }) {
  const take = (one: () => void) => () => {
    onClose();
    one();
  };
  return (
    <Dialog title="Changes are not saved" onClose={onClose}>
      <div class="form">
        <div>The editor has changes of {name} that are not in the sandbox. Which one do you want?</div>
        <div class="form-foot">
          <Button onClick={take(onSaved)}>The file in the sandbox</Button>
          <Button kind="primary" onClick={take(onChanged)}>
            The text in the editor
          </Button>
        </div>
      </div>
    </Dialog>
  );
}

/** A file with changes that are not saved. */
export interface Work {
  entry: Entry;
  user: string;
  text: string;
}

interface ViewProps {
  tree: Tree;
  entry: Entry;
  /** What is not saved; what is in it at first is shown. */
  work: MutableRef<Work | null>;
  onDirty: (dirty: boolean) => void;
  children?: preact.ComponentChildren;
}

export function FileView({ tree, entry, work, onDirty, children }: ViewProps) {
  const before = useRef(work.current?.entry.path === entry.path ? work.current : null);
  const [content, setContent] = useState<Content | null>(null);
  const [text, setText] = useState('');
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [newer, setNewer] = useState(false);
  const [choosing, setChoosing] = useState(false);
  const [turn, setTurn] = useState(0);
  const stat = useRef(entry);
  const saving = useRef(false);
  const dirty = content?.kind === 'text' && content.text !== text;
  useEffect(() => onDirty(dirty), [dirty]);
  useEffect(() => {
    if (content) work.current = dirty ? { entry: stat.current, user: tree.user.value, text } : null;
  }, [content, text]);
  useEffect(() => {
    const stop = new AbortController();
    const read = async () => {
      const now = await tree.call<{ entry: Entry }>('Stat', { path: entry.path });
      stat.current = { ...now.entry, path: entry.path };
      const next = await load(tree, stat.current, stop.signal);
      if (stop.signal.aborted) return;
      setContent(next);
      if (next.kind === 'text') setText(before.current?.text ?? next.text);
      // It may have been changed in the sandbox meanwhile: saving then asks.
      if (before.current) stat.current = before.current.entry;
      before.current = null;
      setError(null);
      setNewer(false);
    };
    read().catch((thrown) => !isAbort(thrown) && setError(sentence(thrown)));
    return () => stop.abort();
  }, [entry.path, turn]);

  // The file was changed by somebody else: shown at once, unless there is work that would be lost.
  const changed = tree.changed.value;
  useEffect(() => {
    if (changed.path !== entry.path || saving.current) return;
    if (dirty) setNewer(true);
    else setTurn((n) => n + 1);
  }, [changed.n]);

  const write = async () => {
    saving.current = true;
    await tree.box.agent().write(entry.path, text, tree.user.value);
    const now = await tree.call<{ entry: Entry }>('Stat', { path: entry.path });
    stat.current = { ...now.entry, path: entry.path };
    setContent({ kind: 'text', text });
    setNewer(false);
    setTimeout(() => (saving.current = false), 1000); // the watch tells of our own change too
  };
  const save = async () => {
    if (!dirty || busy) return;
    setBusy(true);
    await attempt(async () => {
      const now = await tree.call<{ entry: Entry }>('Stat', { path: entry.path }).catch(() => null);
      if (now && now.entry.modifiedTime !== stat.current.modifiedTime) {
        const yes = await confirm({
          title: 'The file has changed',
          text: 'It was changed in the sandbox after it was opened here. What is there now will be lost.',
          action: 'Save all the same',
          danger: true,
        });
        if (!yes) return;
      }
      await write();
    });
    saving.current = false;
    setBusy(false);
  };

  const fetchSaved = () => void attempt(() => download(tree, entry.path));

  return (
    <section class="file-view" aria-label={`File ${shownName(entry.path)}`}>
      <div class="file-bar">
        <span class="mono ellipsis grow" title={shownName(entry.path)}>
          {shownName(entry.path)}
          {dirty && <span class="warn-text"> · changed</span>}
        </span>
        {content?.kind === 'text' && (
          <Button write small kind={dirty ? 'primary' : undefined} icon="check" busy={busy} disabled={!dirty} onClick={save}>
            Save
          </Button>
        )}
        <Button small kind="quiet" icon="download" label="Download" onClick={() => (dirty ? setChoosing(true) : fetchSaved())} />
        {children}
      </div>
      {choosing && (
        <WhichOne
          name={shownName(nameOf(entry.path))}
          onSaved={fetchSaved}
          onChanged={() => saveAs(new Blob([text]), nameOf(entry.path))}
          onClose={() => setChoosing(false)}
        />
      )}
      <ErrorNote error={error} />
      {newer && (
        <Note tone="warn">
          The file was changed in the sandbox.{' '}
          <Button small onClick={() => setTurn(turn + 1)}>
            Load it again
          </Button>
        </Note>
      )}
      {!content && !error && <Spinner label="Reading" />}
      {content?.kind === 'text' && (
        <Editor
          key={entry.path}
          label={`Text of ${shownName(entry.path)}`}
          value={text}
          onChange={setText}
          onSave={save}
          readOnly={!canWrite.value}
          language={languageOf(entry.path)}
          height="100%"
        />
      )}
      {content?.kind === 'picture' && (
        <div class="picture">
          <img src={content.url} alt={shownName(nameOf(entry.path))} />
        </div>
      )}
      {content?.kind === 'bytes' && (
        <div class="column bytes">
          <div class="muted">
            {Number(stat.current.size) > TEXT_BYTES_MAX ? 'This file is too large to be edited here. ' : 'This file is no text. '}
            Its first bytes:
          </div>
          <Hex head={content.head} />
        </div>
      )}
      <div class="file-foot muted small">
        {bytes(Number(stat.current.size ?? 0))} · {stat.current.permissions} · {shownName(`${stat.current.owner}:${stat.current.group}`)} · {dateTime(stat.current.modifiedTime)}
      </div>
    </section>
  );
}
