// The text of terminals over a reload of the page. The agent gives output once, to those who read it;
// so this tab keeps the end of what it has shown, until the shell or the session ends (lib/session.ts).
import { fromBase64, toBase64 } from '../../../lib/agent';

const KEPT_BYTES = 64 * 1024;
const nameOf = (id: string, pid: number) => `terminal ${id} ${pid}`;

/** Both, without what is too much at the beginning; cut behind the end of a line. */
export function joined(before: Uint8Array, more: Uint8Array): Uint8Array {
  const all = new Uint8Array(before.length + more.length);
  all.set(before);
  all.set(more, before.length);
  if (all.length <= 2 * KEPT_BYTES) return all;
  const rest = all.subarray(all.length - KEPT_BYTES);
  return rest.slice(rest.indexOf(10) + 1);
}

export function keptText(id: string, pid: number): Uint8Array {
  try {
    return fromBase64(sessionStorage.getItem(nameOf(id, pid)) ?? '');
  } catch {
    return new Uint8Array(); // the browser keeps nothing, or somebody else wrote it
  }
}

export function keepText(id: string, pid: number, text: Uint8Array): void {
  try {
    if (text.length > 0) sessionStorage.setItem(nameOf(id, pid), toBase64(text));
  } catch {
    // without room it is gone after a reload
  }
}

export function forgetText(id: string, pid: number): void {
  try {
    sessionStorage.removeItem(nameOf(id, pid));
  } catch {
    // nothing was kept
  }
}
