// The files of a sandbox: a tree that follows changes, and the file that is looked at.
import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useRef, useState } from 'preact/hooks';
import { bytes } from '../../../lib/format';
import { canWrite } from '../../../lib/session';
import { Button, ErrorNote, Field, Spinner } from '../../../ui/basics';
import { confirm, Dialog } from '../../../ui/dialog';
import { Form } from '../../../ui/form';
import { Icon } from '../../../ui/icons';
import { attempt } from '../../../ui/toast';
import type { Box } from '../box';
import { download, dropped, forget, upload, uploads } from './transfer';
import { isDirectory, join, nameOf, parentOf, shownName, Tree, type Entry, type Row } from './tree';
import { FileView, type Work } from './view';

const ROW_PX = 26;

/* What was changed and not saved when the tab was left, by sandbox: it is there when the tab is opened again. */
const kept = new Map<string, Work>();

interface AskName {
  title: string;
  label: string;
  value: string;
  action: string;
  run: (name: string) => Promise<void>;
}

function NameDialog({ ask, onClose }: { ask: AskName; onClose: () => void }) {
  const [name, setName] = useState(ask.value);
  return (
    <Dialog title={ask.title} onClose={onClose}>
      <Form
        submit={ask.action}
        onCancel={onClose}
        disabled={name.trim() === ''}
        onSubmit={async () => {
          await ask.run(name);
          onClose();
        }}
      >
        <Field label={ask.label}>
          {(id) => <input id={id} class="mono" value={name} spellcheck={false} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />}
        </Field>
      </Form>
    </Dialog>
  );
}

interface RowsProps {
  tree: Tree;
  at: string | null;
  onAt: (entry: Entry) => void;
  onDelete: (entry: Entry) => void;
}

function Rows({ tree, at, onAt, onDelete }: RowsProps) {
  const box = useRef<HTMLDivElement>(null);
  const rows = tree.rows.value;
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => ROW_PX, overscan: 15 });
  const index = rows.findIndex((row) => row.entry.path === at);
  const go = (to: number) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, to))];
    if (!row) return;
    onAt(row.entry);
    virtual.scrollToIndex(rows.indexOf(row));
  };
  const key = (event: KeyboardEvent) => {
    const row = rows[index];
    if (event.key === 'ArrowDown') go(index + 1);
    else if (event.key === 'ArrowUp') go(index - 1);
    else if (event.key === 'Home') go(0);
    else if (event.key === 'End') go(rows.length - 1);
    else if (!row) return;
    else if (event.key === 'Enter' || event.key === ' ') void tree.toggle(row.entry);
    else if (event.key === 'ArrowRight') row.open ? go(index + 1) : void tree.toggle(row.entry, true);
    else if (event.key === 'ArrowLeft') row.open ? void tree.toggle(row.entry, false) : go(rows.findIndex((other) => other.entry.path === parentOf(row.entry.path)));
    else if (event.key === 'Delete' && canWrite.value) onDelete(row.entry);
    else return;
    event.preventDefault();
  };
  const line = (row: Row) => {
    const folder = isDirectory(row.entry);
    return (
      <>
        <span class={`turner ${row.open ? 'open' : ''}`}>{folder && <Icon name="right" />}</span>
        <Icon name={folder ? 'folder' : 'file'} />
        <span class="ellipsis grow">
          {shownName(row.entry.name)}
          {row.entry.symlinkTarget && <span class="faint"> → {shownName(row.entry.symlinkTarget)}</span>}
          {row.note && <span class="faint"> {row.note}</span>}
        </span>
        {!folder && <span class="faint small num">{bytes(Number(row.entry.size ?? 0))}</span>}
      </>
    );
  };
  return (
    <div
      class="tree"
      ref={box}
      role="tree"
      tabIndex={0}
      aria-label="Files"
      aria-activedescendant={index >= 0 ? `file-${index}` : undefined}
      onKeyDown={key}
    >
      <div style={{ height: `${virtual.getTotalSize()}px`, position: 'relative' }}>
        {virtual.getVirtualItems().map((item) => {
          const row = rows[item.index];
          if (!row) return null;
          return (
            <div
              key={row.entry.path}
              id={`file-${item.index}`}
              role="treeitem"
              aria-level={row.depth + 1}
              aria-expanded={isDirectory(row.entry) ? row.open : undefined}
              aria-selected={row.entry.path === at}
              class="tree-row"
              title={shownName(row.entry.path)}
              style={{ transform: `translateY(${item.start}px)`, paddingLeft: `${8 + row.depth * 14}px` }}
              onClick={() => {
                onAt(row.entry);
                void tree.toggle(row.entry);
              }}
            >
              {line(row)}
            </div>
          );
        })}
      </div>
      {rows.length === 0 && !tree.loading.value && !tree.error.value && <div class="empty small">Nothing is here. Drop files to upload them.</div>}
    </div>
  );
}

function Uploads() {
  if (uploads.value.length === 0) return null;
  return (
    <div class="uploads" role="status" aria-label="Uploads">
      {uploads.value.map((item) => (
        <div class="upload" key={item.id}>
          <div class="row">
            <span class="ellipsis grow">{shownName(item.name)}</span>
            <span class="muted small num">{item.error ? '' : item.done ? 'done' : `${bytes(item.sent)} of ${bytes(item.size)}`}</span>
            {!item.done && <Button kind="quiet" small icon="close" label={item.error ? 'Dismiss' : 'Stop the upload'} onClick={() => (item.error ? forget(item.id) : item.stop.abort())} />}
          </div>
          {item.error ? <div class="bad-text small">{item.error}</div> : <progress value={item.done ? 1 : item.sent} max={item.done ? 1 : Math.max(1, item.size)} aria-label={`Upload of ${shownName(item.name)}`} />}
        </div>
      ))}
    </div>
  );
}

export default function FilesTab({ box }: { box: Box }) {
  const work = useRef<Work | null>(kept.get(box.id) ?? null);
  const [tree] = useState(() => {
    const made = new Tree(box);
    if (work.current) made.user.value = work.current.user;
    return made;
  });
  const [at, setAt] = useState<Entry | null>(work.current?.entry ?? null);
  const [where, setWhere] = useState(tree.root.value);
  const [ask, setAsk] = useState<AskName | null>(null);
  const [over, setOver] = useState(false);
  const [dirty, setDirty] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    void tree.goTo(tree.root.value);
    return () => {
      tree.stop();
      if (work.current) kept.set(box.id, work.current);
      else kept.delete(box.id);
    };
  }, []);
  useEffect(() => {
    if (!dirty) return;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener('beforeunload', warn);
    return () => window.removeEventListener('beforeunload', warn);
  }, [dirty]);

  const go = (root: string) => {
    const clean = root.trim().replace(/(.)\/+$/, '$1') || '/';
    setWhere(clean);
    void tree.goTo(clean);
  };
  const leave = async (entry: Entry) => {
    if (dirty && at) {
      const yes = await confirm({ title: 'Changes are not saved', text: `What was changed in ${shownName(nameOf(at.path))} will be lost.`, action: 'Discard the changes', danger: true });
      if (!yes) return;
      setDirty(false);
      work.current = null;
    }
    setAt(entry);
  };
  const choose = async (entry: Entry) => {
    if (dirty && (entry.path === at?.path || isDirectory(entry))) return;
    await leave(entry);
  };
  /* Where something new is put: the chosen directory, or the one that the chosen file is in. */
  const here = at ? (isDirectory(at) ? at.path : parentOf(at.path)) : tree.root.value;
  const make = (folder: boolean) =>
    setAsk({
      title: folder ? 'New folder' : 'New file',
      label: `Name, in ${shownName(here)}`,
      value: '',
      action: 'Create',
      run: async (name) => {
        const target = name.startsWith('/') ? name : join(here, name);
        if (folder) await tree.call('MakeDir', { path: target });
        else {
          const there = await tree.call('Stat', { path: target }).then(
            () => true,
            () => false,
          );
          if (there) throw new Error(`${target} is there already.`);
          await box.agent().write(target, '', tree.user.value);
        }
        tree.refresh(parentOf(target));
        setAt({ name: nameOf(target), path: target, type: folder ? 'FILE_TYPE_DIRECTORY' : 'FILE_TYPE_FILE', size: 0 });
      },
    });
  const rename = (entry: Entry) =>
    setAsk({
      title: 'Rename or move',
      label: 'New path',
      value: entry.path,
      action: 'Move',
      run: async (target) => {
        await tree.call('Move', { source: entry.path, destination: target });
        tree.refresh(parentOf(entry.path), parentOf(target));
        const moved = { ...entry, path: target, name: nameOf(target) };
        if (work.current?.entry.path === entry.path) work.current = { ...work.current, entry: { ...work.current.entry, path: target, name: nameOf(target) } };
        setAt(moved);
      },
    });
  const remove = (entry: Entry) =>
    void confirm({
      title: 'Delete',
      text: (
        <>
          <span class="mono">{shownName(entry.path)}</span>
          {isDirectory(entry) && ' and everything in it'} will be deleted.
        </>
      ),
      action: 'Delete',
      danger: true,
      run: async () => {
        await tree.call('Remove', { path: entry.path });
        tree.refresh(parentOf(entry.path));
        if (at?.path === entry.path) {
          setAt(null);
          work.current = null;
        }
        setDirty(false);
      },
    });
  const drop = async (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    if (!event.dataTransfer || !canWrite.value) return;
    const files = await dropped(event.dataTransfer);
    await upload(tree, here, files);
  };

  return (
    <div class={`files ${at && !isDirectory(at) ? 'viewing' : ''}`}>
      <div
        class={`files-side ${over ? 'over' : ''}`}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(canWrite.value);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={drop}
      >
        <form
          class="files-where"
          onSubmit={(event) => {
            event.preventDefault();
            go(where);
          }}
        >
          <Button kind="quiet" small icon="up" label="The directory above" onClick={() => go(parentOf(tree.root.value))} />
          <input class="input mono" aria-label="Directory" value={where} spellcheck={false} onInput={(event) => setWhere(event.currentTarget.value)} />
          <select
            class="input"
            aria-label="As user"
            title="Files are read and written as this user"
            value={tree.user.value}
            onChange={(event) => {
              tree.user.value = event.currentTarget.value;
              go(tree.root.value);
            }}
          >
            <option>user</option>
            <option>root</option>
          </select>
        </form>
        <div class="files-tools">
          <Button write small kind="quiet" icon="file" label="New file" onClick={() => make(false)} />
          <Button write small kind="quiet" icon="folder" label="New folder" onClick={() => make(true)} />
          <Button write small kind="quiet" icon="upload" label={`Upload into ${shownName(here)}`} onClick={() => input.current?.click()} />
          <Button small kind="quiet" icon="refresh" label="Read again" onClick={() => tree.refreshAll()} />
          <span class="grow" />
          {at && (
            <>
              {!isDirectory(at) && <Button small kind="quiet" icon="download" label={`Download ${shownName(at.name)}`} onClick={() => attempt(() => download(tree, at.path))} />}
              <Button write small kind="quiet" icon="edit" label={`Rename ${shownName(at.name)}`} onClick={() => rename(at)} />
              <Button write small kind="quiet" icon="trash" label={`Delete ${shownName(at.name)}`} onClick={() => remove(at)} />
            </>
          )}
          <input
            ref={input}
            type="file"
            multiple
            hidden
            aria-label="Files to upload"
            onChange={(event) => {
              const files = [...(event.currentTarget.files ?? [])].map((file) => ({ path: file.name, file }));
              event.currentTarget.value = '';
              void upload(tree, here, files);
            }}
          />
        </div>
        <ErrorNote error={tree.error.value} />
        {tree.loading.value ? <Spinner label="Reading" /> : <Rows tree={tree} at={at?.path ?? null} onAt={choose} onDelete={remove} />}
        <Uploads />
        {over && <div class="drop-note">Upload into {shownName(here)}</div>}
      </div>
      <div class="files-main">
        {at && !isDirectory(at) ? (
          <FileView key={at.path} tree={tree} entry={at} work={work} onDirty={setDirty}>
            <Button kind="quiet" small icon="close" label="Close the file" onClick={() => leave({ ...at, path: parentOf(at.path), type: 'FILE_TYPE_DIRECTORY' })} />
          </FileView>
        ) : (
          <div class="empty">
            <h2>No file is open</h2>
            <div>Choose one. {canWrite.value && 'Drop files on the tree to upload them. On the command line:'}</div>
            {canWrite.value && <code>atoll cp notes.txt {box.id}:/home/user/</code>}
          </div>
        )}
      </div>
      {ask && <NameDialog ask={ask} onClose={() => setAsk(null)} />}
    </div>
  );
}
