// The desktop's screen. The template of the desktop is large; a small server that speaks the same
// protocol (a WebSocket with RFB 3.8, one picture) stands on its port in a sandbox of base.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { close, enter, sandbox, shot, until, useBrowser } from './helpers.js';
import { run } from './inside.js';

useBrowser();

const SCREEN = `
import base64, hashlib, socket, struct, threading, time
W, H = 320, 200

def frame(data):
    n = len(data)
    head = bytes([0x82, n]) if n < 126 else bytes([0x82, 126]) + struct.pack('>H', n) if n < 65536 else bytes([0x82, 127]) + struct.pack('>Q', n)
    return head + data

class Peer:
    def __init__(self, s):
        self.s, self.have = s, b''
        head = b''
        while b'\\r\\n\\r\\n' not in head:
            head += s.recv(4096)
        lines = dict(l.split(': ', 1) for l in head.decode().split('\\r\\n')[1:] if ': ' in l)
        key = {k.lower(): v for k, v in lines.items()}['sec-websocket-key']
        accept = base64.b64encode(hashlib.sha1((key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').encode()).digest()).decode()
        s.sendall(('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: %s\\r\\n\\r\\n' % accept).encode())
    def raw(self, n):
        out = b''
        while len(out) < n:
            got = self.s.recv(n - len(out))
            if not got: raise EOFError
            out += got
        return out
    def read(self, n):
        while len(self.have) < n:
            _, b = self.raw(2)
            size = b & 127
            if size == 126: size = struct.unpack('>H', self.raw(2))[0]
            if size == 127: size = struct.unpack('>Q', self.raw(8))[0]
            mask = self.raw(4) if b & 128 else b'\\0' * 4
            self.have += bytes(c ^ mask[i % 4] for i, c in enumerate(self.raw(size)))
        out, self.have = self.have[:n], self.have[n:]
        return out
    def send(self, data): self.s.sendall(frame(data))

def serve(s):
    p = Peer(s)
    p.send(b'RFB 003.008\\n'); p.read(12)
    p.send(bytes([1, 1])); p.read(1); p.send(struct.pack('>I', 0))
    p.read(1)
    name = b'screen'
    p.send(struct.pack('>HHBBBBHHHBBB3x', W, H, 32, 24, 0, 1, 255, 255, 255, 16, 8, 0) + struct.pack('>I', len(name)) + name)
    threading.Thread(target=lambda: [p.s.recv(4096) or time.sleep(1) for _ in range(1000)], daemon=True).start()
    for _ in range(600):
        p.send(struct.pack('>BxxxI', 3, 4) + b'evil')
        p.send(struct.pack('>BxH', 0, 1) + struct.pack('>HHHHi', 0, 0, W, H, 0) + bytes([0, 200, 100, 0]) * (W * H))
        time.sleep(0.5)

l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); l.bind(('127.0.0.1', 6080)); l.listen()
while True:
    s, _ = l.accept()
    threading.Thread(target=serve, args=(s,), daemon=True).start()
`;

test('a screen is shown, and connected again', async () => {
  const id = await sandbox();
  await run(id, `cat > screen.py <<'END'${SCREEN}END\nsetsid -f python3 screen.py >screen.log 2>&1`);
  const page = await enter(`/sandboxes/${id}/desktop`);
  const canvas = page.locator('.screen canvas');
  await canvas.waitFor();
  await until('the picture is drawn', () =>
    canvas.evaluate((element) => {
      const [red, green, blue] = element.getContext('2d').getImageData(5, 5, 1, 1).data;
      return element.width === 320 && red === 0 && green === 200 && blue === 100;
    }),
  );
  await shot(page, 'sandbox-desktop');
  await run(id, 'pkill -x python3; sleep 0.5; setsid -f python3 screen.py >screen.log 2>&1');
  await page.getByText('The screen is not connected').waitFor();
  await page.getByRole('button', { name: 'Connect again' }).click();
  await canvas.waitFor();
  assert.equal(await page.getByText('The screen is not connected').count(), 0);
  await close(page);
});

test('a sandbox does not write into the clipboard by itself', async () => {
  const id = await sandbox();
  await run(id, `cat > screen.py <<'END'${SCREEN}END\nsetsid -f python3 screen.py >screen.log 2>&1`);
  const page = await enter(`/sandboxes/${id}/desktop`, { permissions: ['clipboard-read', 'clipboard-write'] });
  const text = () => page.evaluate(() => navigator.clipboard.readText());
  await page.evaluate(() => navigator.clipboard.writeText('mine'));
  const take = page.getByRole('button', { name: 'Take its clipboard' });
  await take.waitFor(); // the text has come
  assert.equal(await text(), 'mine');
  await take.click();
  await until('the text was taken', async () => (await text()) === 'evil');
  await close(page);
});
