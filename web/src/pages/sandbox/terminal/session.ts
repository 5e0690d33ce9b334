// A terminal in a sandbox: a shell on a pseudo terminal. The shell outlives the stream of its output:
// after a break, or when the page is loaded again, the stream is connected again by the pid. The agent
// keeps what was printed meanwhile.
import { FitAddon } from '@xterm/addon-fit';
import { WebLinksAddon } from '@xterm/addon-web-links';
import { Terminal } from '@xterm/xterm';
import '@xterm/xterm/css/xterm.css';
import { effect, signal } from '@preact/signals';
import { asUser, fromBase64, toBase64 } from '../../../lib/agent';
import { ApiError, sentence, sleep } from '../../../lib/api';
import { isElsewhere, session as loggedIn } from '../../../lib/session';
import { color, theme } from '../../../lib/theme';
import { copyText } from '../../../ui/basics';
import type { Box } from '../box';
import { forgetText, joined, keepText, keptText } from './kept';
import { shownName } from '../files/tree';

export type Phase = 'starting' | 'live' | 'detached' | 'reconnecting' | 'ended';

interface ProcessEvent {
  event?: {
    start?: { pid: number };
    data?: { pty?: string; stdout?: string; stderr?: string };
    end?: { exitCode?: number; exited?: boolean; status?: string; error?: string };
  };
}

export const TAG = 'dashboard-terminal';
const WAIT_FIRST_MS = 500;
const WAIT_MAX_MS = 10_000;
const TITLE_CHARS = 40;
/* Shells put their host's name into the title. One that was copied by a fork goes on with the parent's. */
const AT_SANDBOX = /@i[0-9a-z]{20}\b/;
const SCROLLBACK_LINES = 10_000;
const PING_S = '30';
const KEEP_MS = 1000;

/* The terminal colours a selection by setAttribute('style', …), which the Content-Security-Policy
 * refuses. The same by the style object is allowed. It does so with spans alone. */
HTMLSpanElement.prototype.setAttribute = function (name: string, value: string): void {
  if (name === 'style') this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
};

/* Only what a browser opens as a page of another origin. */
function openLink(_event: MouseEvent, address: string): void {
  if (isElsewhere(address)) window.open(address, '_blank', 'noopener,noreferrer');
}

function look() {
  const dark = theme.value === 'dark';
  return {
    background: color('--bg'),
    foreground: color('--text'),
    cursor: color('--accent'),
    cursorAccent: color('--bg'),
    selectionBackground: `${color('--accent')}55`,
    black: dark ? '#2a323c' : '#18212b',
    red: color('--bad'),
    green: color('--ok'),
    yellow: color('--warn'),
    blue: color('--info'),
    magenta: color('--violet'),
    cyan: color('--accent'),
    white: dark ? '#c5ced8' : '#667380',
    brightBlack: color('--faint'),
    brightRed: color('--bad'),
    brightGreen: color('--ok'),
    brightYellow: color('--warn'),
    brightBlue: color('--info'),
    brightMagenta: color('--violet'),
    brightCyan: color('--accent'),
    brightWhite: dark ? '#ffffff' : '#18212b',
  };
}

export interface Wanted {
  user: string;
  cwd?: string;
  pid?: number;
}

let made = 0;

export class Session {
  readonly key = ++made;
  readonly title = signal('');
  readonly phase = signal<Phase>('starting');
  /** What to tell below the terminal: the exit code, or why it is not connected. */
  readonly note = signal<string | null>(null);
  readonly element = document.createElement('div');
  readonly terminal: Terminal;
  pid: number | undefined;
  private readonly fit = new FitAddon();
  private stop: AbortController | null = null;
  private closed = false;
  private input: Uint8Array[] = [];
  private sending = false;
  private readonly ends: (() => void)[] = [];
  private written: Uint8Array = new Uint8Array();
  private keeping: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly box: Box,
    readonly wanted: Wanted,
  ) {
    this.pid = wanted.pid;
    if (wanted.pid !== undefined) this.written = keptText(box.id, wanted.pid);
    this.title.value = wanted.pid ? `${wanted.user} ${wanted.pid}` : wanted.user;
    this.element.className = 'terminal-screen';
    this.element.dataset.keys = 'own';
    this.terminal = new Terminal({
      fontFamily: getComputedStyle(document.documentElement).getPropertyValue('--mono'),
      fontSize: 13,
      scrollback: SCROLLBACK_LINES,
      theme: look(),
      cursorBlink: true,
      allowProposedApi: false,
      screenReaderMode: false,
      linkHandler: { activate: openLink },
    });
    this.terminal.loadAddon(this.fit);
    this.terminal.loadAddon(new WebLinksAddon(openLink));
    this.terminal.attachCustomKeyEventHandler((event) => this.keys(event));
    this.terminal.onData((text) => this.type(new TextEncoder().encode(text)));
    this.terminal.onBinary((text) => this.type(Uint8Array.from(text, (c) => c.charCodeAt(0))));
    this.terminal.onResize(() => void this.resize());
    this.terminal.onTitleChange((text) => (this.title.value = shownName(text.replace(AT_SANDBOX, '').slice(0, TITLE_CHARS))));
    this.ends.push(effect(() => void (this.terminal.options.theme = look())));
    box.leave.addEventListener('abort', () => this.dispose(), { once: true });
    const leaving = () => this.keep();
    window.addEventListener('pagehide', leaving);
    this.ends.push(() => window.removeEventListener('pagehide', leaving));
  }

  /* Ctrl-Shift-C and Ctrl-C with a selection copy, Ctrl-Shift-V pastes, Ctrl-F6 leaves the terminal. */
  private keys(event: KeyboardEvent): boolean {
    if (event.type !== 'keydown' || !(event.ctrlKey || event.metaKey)) return true;
    const key = event.key.toLowerCase();
    if (key === 'f6') {
      document.querySelector<HTMLElement>('.terminal-tabs [aria-selected="true"]')?.focus();
      return false;
    }
    if (key === 'c' && this.terminal.hasSelection()) {
      void this.copy();
      event.preventDefault();
      return false;
    }
    if (key === 'v' && event.shiftKey && navigator.clipboard) {
      void this.paste();
      event.preventDefault();
      return false;
    }
    return !(key === 'v'); // the browser's own paste
  }

  async copy(): Promise<void> {
    if (!this.terminal.hasSelection()) this.terminal.selectAll();
    await copyText(this.terminal.getSelection().replace(/\s+$/, ''));
    this.terminal.clearSelection();
    this.terminal.focus();
  }

  async paste(): Promise<void> {
    this.terminal.paste(await navigator.clipboard.readText());
    this.terminal.focus();
  }

  /** Puts it on the page; the first time it starts, later it connects again. */
  show(parent: HTMLElement): void {
    parent.append(this.element);
    const first = !this.terminal.element;
    if (first) this.terminal.open(this.element);
    this.refit();
    if (first && this.written.length > 0) this.terminal.write(this.written); // as wide as it was, if the window is
    if (this.stop === null && this.phase.value !== 'ended') void this.run();
  }

  refit(): void {
    if (this.element.isConnected && this.element.clientWidth > 0) this.fit.fit();
  }

  /** Ends the stream of a terminal that nobody looks at. */
  detach(): void {
    if (this.pid === undefined || this.phase.value === 'ended') return;
    this.stop?.abort();
    this.stop = null;
    this.phase.value = 'detached';
  }

  private get size() {
    return { size: { cols: this.terminal.cols, rows: this.terminal.rows } };
  }

  private headers() {
    return { ...asUser(this.wanted.user), 'Keepalive-Ping-Interval': PING_S };
  }

  private stream(signal: AbortSignal): AsyncGenerator<ProcessEvent> {
    const options = { signal, headers: this.headers() };
    if (this.pid !== undefined) {
      return this.box.agent().stream<ProcessEvent>('process.Process/Connect', { process: { pid: this.pid } }, options);
    }
    const process = {
      cmd: '/bin/bash',
      args: ['-i', '-l'],
      envs: { TERM: 'xterm-256color', COLORTERM: 'truecolor', LANG: 'C.UTF-8', LC_ALL: 'C.UTF-8' },
      cwd: this.wanted.cwd || undefined,
    };
    const tag = `${TAG} ${this.wanted.user}`;
    return this.box.agent().stream<ProcessEvent>('process.Process/Start', { process, pty: this.size, tag }, options);
  }

  private take({ event }: ProcessEvent): void {
    if (event?.start) {
      const again = this.pid !== undefined;
      this.pid = event.start.pid;
      this.phase.value = 'live';
      this.note.value = null;
      void this.resize(again);
    } else if (event?.data) {
      const text = event.data.pty ?? event.data.stdout ?? event.data.stderr;
      if (text) this.write(fromBase64(text));
    } else if (event?.end) {
      const { exitCode = 0, exited, status, error } = event.end;
      this.finish(exited === false ? (error ?? status ?? 'It was ended by a signal.') : `Ended with exit code ${exitCode}`);
    }
  }

  /* The agent gives output once: what is shown is kept for a reload of the page. */
  private write(bytes: Uint8Array): void {
    this.terminal.write(bytes);
    this.written = joined(this.written, bytes);
    this.keeping ??= setTimeout(() => this.keep(), KEEP_MS);
  }

  private keep(): void {
    clearTimeout(this.keeping);
    this.keeping = undefined;
    if (this.pid !== undefined && !this.ended()) keepText(this.box.id, this.pid, this.written);
  }

  private finish(note: string): void {
    if (this.pid !== undefined) forgetText(this.box.id, this.pid);
    this.phase.value = 'ended';
    this.note.value = note;
    this.terminal.options.cursorBlink = false;
  }

  private async run(): Promise<void> {
    const stop = new AbortController();
    this.stop = stop;
    let wait = WAIT_FIRST_MS;
    while (!stop.signal.aborted && this.ended() === false) {
      try {
        for await (const event of this.stream(stop.signal)) {
          wait = WAIT_FIRST_MS;
          this.take(event);
        }
      } catch (error) {
        if (stop.signal.aborted) return;
        this.failed(error);
      }
      if (stop.signal.aborted || this.ended()) return;
      await sleep(wait, stop.signal);
      wait = Math.min(wait * 2, WAIT_MAX_MS);
    }
  }

  private ended = () => this.phase.value === 'ended';

  /* A shell that never started, or is not there any more, is over. All else is tried again. */
  private failed(error: unknown): void {
    const refused = error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429;
    if (refused || this.pid === undefined) return this.finish(sentence(error));
    this.phase.value = 'reconnecting';
    this.note.value = this.box.state.value === 'paused' ? 'The sandbox is paused.' : sentence(error);
  }

  /* After a break the program inside is made to draw itself again: it does so for a new size only. */
  private async resize(redraw = false): Promise<void> {
    if (this.pid === undefined || this.phase.value !== 'live') return;
    const update = (rows: number) =>
      this.box.agent().unary('process.Process/Update', {
        process: { pid: this.pid },
        pty: { size: { cols: this.terminal.cols, rows } },
      });
    try {
      if (redraw) await update(Math.max(1, this.terminal.rows - 1));
      await update(this.terminal.rows);
    } catch {
      // the stream tells what is wrong
    }
  }

  private type(bytes: Uint8Array): void {
    if (this.phase.value === 'ended') return;
    this.input.push(bytes);
    if (!this.sending) void this.send();
  }

  /* One request at a time, so that keys arrive in their order. */
  private async send(): Promise<void> {
    this.sending = true;
    while (this.input.length > 0 && !this.closed && this.pid !== undefined && !this.ended()) {
      const bytes = new Uint8Array(await new Blob(this.input.splice(0) as BlobPart[]).arrayBuffer());
      try {
        await this.box.agent().unary(
          'process.Process/SendInput',
          { process: { pid: this.pid }, input: { pty: toBase64(bytes) } },
          { headers: this.headers() },
        );
      } catch (error) {
        if (!this.ended()) this.note.value = sentence(error);
        break;
      }
    }
    this.sending = false;
  }

  /** Ends the shell. */
  async kill(): Promise<void> {
    if (this.pid === undefined || this.ended()) return;
    this.written = new Uint8Array();
    forgetText(this.box.id, this.pid);
    await this.box
      .agent()
      .unary('process.Process/SendSignal', { process: { pid: this.pid }, signal: 'SIGNAL_SIGKILL' }, { headers: this.headers() })
      .catch(() => {});
  }

  dispose(): void {
    if (this.closed) return;
    if (loggedIn.value) this.keep(); // it may be looked at again, in this session
    this.closed = true;
    this.stop?.abort();
    this.ends.forEach((end) => end());
    this.terminal.dispose();
    this.element.remove();
  }
}
