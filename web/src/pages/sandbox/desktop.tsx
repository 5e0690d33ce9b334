// The screen of a desktop sandbox, by VNC over a WebSocket of this origin.
import RFB from '@novnc/novnc';
import { useEffect, useRef, useState } from 'preact/hooks';
import { sentence } from '../../lib/api';
import { Button, copyText, EmptyState, ErrorNote, Field, Note, Spinner } from '../../ui/basics';
import { Dialog } from '../../ui/dialog';
import { Form } from '../../ui/form';
import { toast } from '../../ui/toast';
import type { Box } from './box';
import { usePolled } from './polled';

const SCREEN_PORT = 6080;
const ASK_MS = 3000;
const START_WAIT_MS = 60_000;
const PROXY = '/opt/noVNC/utils/novnc_proxy';

/* As the e2b-desktop packages start it; what runs already is left alone. */
const START = `
export DISPLAY=:0
if ! xdpyinfo >/dev/null 2>&1; then
  setsid -f Xvfb :0 -ac -screen 0 1280x800x24 -retro -dpi 96 -nolisten tcp -nolisten unix >/tmp/xvfb.log 2>&1
  for i in $(seq 100); do xdpyinfo >/dev/null 2>&1 && break; sleep 0.1; done
  setsid -f startxfce4 >/tmp/xfce.log 2>&1
fi
pgrep -x x11vnc >/dev/null ||
  x11vnc -bg -display :0 -forever -wait 50 -shared -rfbport 5900 -nopw -noxdamage -noxfixes -nowf -noscr -ping 1 -repeat -speeds lan >/tmp/x11vnc.log 2>&1 || exit 1
cd /opt/noVNC/utils && setsid -f ./novnc_proxy --vnc localhost:5900 --listen ${SCREEN_PORT} --web /opt/noVNC >/tmp/novnc.log 2>&1
`;

interface Event {
  event?: { data?: { stderr?: string }; end?: { exitCode?: number; error?: string } };
}

async function startScreen(box: Box): Promise<void> {
  const process = { cmd: '/bin/bash', args: ['-l', '-c', START] };
  const stop = AbortSignal.timeout(START_WAIT_MS);
  for await (const { event } of box.agent().stream<Event>('process.Process/Start', { process, stdin: false }, { signal: stop })) {
    if (event?.end?.error) throw new Error(`The screen did not start (${event.end.error}). /tmp/x11vnc.log in the sandbox says more.`);
  }
}

interface Port {
  port: number;
}

async function look(box: Box, signal: AbortSignal): Promise<'runs' | 'can' | 'cannot'> {
  const { ports } = await box.agent().json<{ ports: Port[] }>('GET', '/ports', undefined, { signal });
  if (ports.some(({ port }) => port === SCREEN_PORT)) return 'runs';
  const there = await box
    .agent()
    .unary('filesystem.Filesystem/Stat', { path: PROXY }, { signal })
    .then(
      () => true,
      () => false,
    );
  return there ? 'can' : 'cannot';
}

function Screen({ box, onEnd }: { box: Box; onEnd: (why: string) => void }) {
  const place = useRef<HTMLDivElement>(null);
  const rfb = useRef<RFB | null>(null);
  const [phase, setPhase] = useState('Connecting');
  const [asking, setAsking] = useState(false);
  const [password, setPassword] = useState('');
  const [fit, setFit] = useState(true);
  const [viewOnly, setViewOnly] = useState(false);
  const [offered, setOffered] = useState('');
  useEffect(() => {
    const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
    const made = new RFB(place.current!, `${scheme}://${location.host}/dashboard/sandboxes/${encodeURIComponent(box.id)}/stream/${SCREEN_PORT}`);
    rfb.current = made;
    let left = false;
    let refused = '';
    made.scaleViewport = true;
    made.background = 'black';
    made.addEventListener('connect', () => setPhase(''));
    made.addEventListener('credentialsrequired', () => setAsking(true));
    made.addEventListener('securityfailure', (event) => (refused = String((event as CustomEvent<{ reason?: string }>).detail.reason ?? 'The password is wrong.')));
    // A sandbox does not write into the reader's clipboard: what is pasted next may be a command.
    made.addEventListener('clipboard', (event) => setOffered(String((event as CustomEvent<{ text: string }>).detail.text)));
    made.addEventListener('disconnect', () => {
      if (!left) onEnd(refused || 'The connection to the screen ended.');
    });
    return () => {
      left = true;
      made.disconnect();
    };
  }, []);
  useEffect(() => {
    if (rfb.current) rfb.current.scaleViewport = fit;
  }, [fit]);
  useEffect(() => {
    if (rfb.current) rfb.current.viewOnly = viewOnly;
  }, [viewOnly]);
  const paste = async () => {
    try {
      rfb.current?.clipboardPasteFrom(await navigator.clipboard.readText());
      toast('The text is in the clipboard of the desktop.');
    } catch {
      toast('The browser does not allow to read the clipboard here.', 'bad');
    }
  };
  return (
    <div class="desktop">
      <div class="row wrap">
        <label class="check">
          <input type="checkbox" checked={fit} onChange={(event) => setFit(event.currentTarget.checked)} />
          Fit to the window
        </label>
        <label class="check">
          <input type="checkbox" checked={viewOnly} onChange={(event) => setViewOnly(event.currentTarget.checked)} />
          Only look
        </label>
        <span class="muted small" role="status">
          {phase && `${phase} …`}
        </span>
        <span class="grow" />
        {offered && (
          <Button small icon="copy" onClick={() => copyText(offered).then(() => toast('Copied.'))}>
            Take its clipboard
          </Button>
        )}
        {navigator.clipboard && (
          <Button small icon="copy" onClick={paste}>
            Send the clipboard
          </Button>
        )}
        <Button small onClick={() => rfb.current?.sendCtrlAltDel()}>
          Ctrl-Alt-Del
        </Button>
        <Button small icon="system" onClick={() => void place.current?.requestFullscreen()}>
          Full screen
        </Button>
      </div>
      <div class="screen" ref={place} data-keys="own" role="application" aria-label="The screen of the desktop" />
      {asking && (
        <Dialog title="The screen asks for a password" onClose={() => setAsking(false)}>
          <Form
            submit="Connect"
            onCancel={() => setAsking(false)}
            onSubmit={async () => {
              rfb.current?.sendCredentials({ password });
              setAsking(false);
            }}
          >
            <Field label="Password" hint="stream.get_auth_key() of the desktop package shows it.">
              {(id, hint) => (
                <input id={id} aria-describedby={hint} type="password" autocomplete="off" value={password} onInput={(event) => setPassword(event.currentTarget.value)} />
              )}
            </Field>
          </Form>
        </Dialog>
      )}
    </div>
  );
}

export default function DesktopTab({ box }: { box: Box }) {
  const { value, error, again } = usePolled((signal) => look(box, signal), ASK_MS);
  const [ended, setEnded] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState<string | null>(null);
  const start = async () => {
    setBusy(true);
    setFailed(null);
    try {
      await startScreen(box);
      again();
    } catch (thrown) {
      setFailed(sentence(thrown));
    }
    setBusy(false);
  };
  if (!value) return error ? <ErrorNote error={error} /> : <Spinner label="Looking for a screen" />;
  if (value === 'runs' && ended === null) {
    return (
      <Screen
        key={turn}
        box={box}
        onEnd={(why) => {
          setEnded(why);
        }}
      />
    );
  }
  if (value === 'runs') {
    return (
      <EmptyState title="The screen is not connected">
        <div class="column">
          <Note tone="warn">{ended}</Note>
          <div>
            <Button
              kind="primary"
              icon="refresh"
              onClick={() => {
                setEnded(null);
                setTurn(turn + 1);
              }}
            >
              Connect again
            </Button>
          </div>
        </div>
      </EmptyState>
    );
  }
  if (value === 'can') {
    return (
      <EmptyState title="No screen runs" line="sandbox.stream.start()">
        <div class="column">
          <div>The sandbox has a desktop, and nobody has started its stream. Start it here, or with the desktop package:</div>
          <div>
            <Button write kind="primary" icon="desktop" busy={busy} onClick={start}>
              Start the screen
            </Button>
          </div>
          <ErrorNote error={failed} />
        </div>
      </EmptyState>
    );
  }
  return (
    <EmptyState title="This sandbox has no desktop" line="atoll template build desktop --cpus 2 --memory 4096">
      Its template is {box.detail.value?.alias ?? box.detail.value?.templateID}. Sandboxes of the template <code>desktop</code> have one. It is made once, on the
      daemon's machine:
    </EmptyState>
  );
}
