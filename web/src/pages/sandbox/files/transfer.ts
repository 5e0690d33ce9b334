// Uploads and downloads. A large file goes up in parts that the agent puts together: so there is
// progress to show, and the session's cookie stays at home (XMLHttpRequest would send it along).
import { signal } from '@preact/signals';
import { sentence } from '../../../lib/api';
import { join, nameOf, parentOf, type Tree } from './tree';

export interface Upload {
  id: number;
  name: string;
  size: number;
  sent: number;
  error?: string;
  done?: boolean;
  stop: AbortController;
}

const PART_BYTES = 8 * 1024 * 1024;
const SHOWN_MS = 4000;
const FILES_MAX = 2000; // of one drop

export const uploads = signal<Upload[]>([]);
let last = 0;

function change(id: number, part: Partial<Upload>): void {
  uploads.value = uploads.value.map((upload) => (upload.id === id ? { ...upload, ...part } : upload));
}

export function forget(id: number): void {
  uploads.value = uploads.value.filter((upload) => upload.id !== id);
}

async function put(tree: Tree, target: string, content: Blob, signal: AbortSignal): Promise<void> {
  const form = new FormData();
  form.append('file', content, nameOf(target) || 'file');
  await tree.box.agent().send('POST', '/files', form, { query: { path: target, username: tree.user.value }, signal });
}

async function inParts(tree: Tree, target: string, file: Blob, stop: AbortController, sent: (n: number) => void): Promise<void> {
  const parts: string[] = [];
  const mark = crypto.getRandomValues(new Uint32Array(1))[0]!.toString(36);
  try {
    for (let at = 0; at < file.size; at += PART_BYTES) {
      const part = join(parentOf(target), `.upload-${mark}-${parts.length}`);
      parts.push(part);
      await put(tree, part, file.slice(at, at + PART_BYTES), stop.signal);
      sent(Math.min(at + PART_BYTES, file.size));
    }
    const order = { source_paths: parts, destination: target, username: tree.user.value };
    await tree.box.agent().json('POST', '/files/compose', order, { signal: stop.signal });
  } catch (error) {
    for (const part of parts) await tree.call('Remove', { path: part }).catch(() => {});
    throw error;
  }
}

async function uploadOne(tree: Tree, target: string, file: Blob): Promise<void> {
  const upload: Upload = { id: ++last, name: nameOf(target), size: file.size, sent: 0, stop: new AbortController() };
  uploads.value = [...uploads.value, upload];
  try {
    if (file.size <= PART_BYTES) await put(tree, target, file, upload.stop.signal);
    else await inParts(tree, target, file, upload.stop, (sent) => change(upload.id, { sent }));
    change(upload.id, { sent: file.size, done: true });
    setTimeout(() => forget(upload.id), SHOWN_MS);
  } catch (error) {
    change(upload.id, { error: upload.stop.signal.aborted ? 'Stopped.' : sentence(error) });
  }
  tree.refresh(parentOf(target));
}

export type Dropped = { path: string; file: File };

export async function upload(tree: Tree, directory: string, files: Dropped[]): Promise<void> {
  for (const { path, file } of files.slice(0, FILES_MAX)) await uploadOne(tree, join(directory, path), file);
  tree.refresh(directory);
}

/* Directories come as entries, which are read a hundred at a time. */
async function walk(entry: FileSystemEntry, into: Dropped[]): Promise<void> {
  if (into.length >= FILES_MAX) return;
  if (entry.isFile) {
    const file = await new Promise<File>((done, fail) => (entry as FileSystemFileEntry).file(done, fail));
    into.push({ path: entry.fullPath.replace(/^\//, ''), file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((done, fail) => reader.readEntries(done, fail));
    if (some.length === 0) return;
    for (const inside of some) await walk(inside, into);
  }
}

/** Files and whole directories of a drop. Must be called before the event is over. */
export async function dropped(transfer: DataTransfer): Promise<Dropped[]> {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  const files: Dropped[] = [];
  if (entries.length === 0) return [...transfer.files].map((file) => ({ path: file.name, file }));
  for (const entry of entries) await walk(entry, files);
  return files;
}

/** Saves it on the reader's machine: always as bytes, never as a document of this origin. */
export function saveAs(content: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([content], { type: 'application/octet-stream' }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export async function download(tree: Tree, file: string): Promise<void> {
  const answer = await tree.box.agent().read(file, tree.user.value);
  saveAs(await answer.blob(), nameOf(file) || 'file');
}
