// Commands inside a sandbox, as the SDKs run them, for tests that need something to look at.
import { api, API } from './helpers.js';

const AGENT_PORT = '49983';

export async function headers(id, port = AGENT_PORT) {
  const { envdAccessToken } = await api('GET', `/sandboxes/${id}`);
  return { 'E2b-Sandbox-Id': id, 'E2b-Sandbox-Port': port, 'X-Access-Token': envdAccessToken };
}

function envelope(message) {
  const text = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(text.length, 1);
  return Buffer.concat([head, text]);
}

function* messages(bytes) {
  for (let at = 0; at + 5 <= bytes.length; ) {
    const length = bytes.readUInt32BE(at + 1);
    yield JSON.parse(bytes.subarray(at + 5, at + 5 + length).toString() || '{}');
    at += 5 + length;
  }
}

/** Runs it and returns what it printed; throws when it fails. What shall go on: `setsid -f CMD`. */
export async function run(id, command, user = 'user') {
  const answer = await fetch(`${API}/process.Process/Start`, {
    method: 'POST',
    headers: {
      ...(await headers(id)),
      Authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}`,
      'Content-Type': 'application/connect+json',
      'Connect-Protocol-Version': '1',
    },
    body: envelope({ process: { cmd: '/bin/bash', args: ['-l', '-c', command] }, stdin: false }),
  });
  let printed = '';
  for (const { event, error } of messages(Buffer.from(await answer.arrayBuffer()))) {
    if (error) throw new Error(error.message);
    const text = event?.data?.stdout ?? event?.data?.stderr;
    if (text) printed += Buffer.from(text, 'base64').toString();
    if (event?.end?.error) throw new Error(`${command}: ${event.end.error}: ${printed}`);
  }
  return printed;
}

/** The contents of a file. */
export async function read(id, path) {
  const answer = await fetch(`${API}/files?path=${encodeURIComponent(path)}&username=user`, { headers: await headers(id) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return await answer.text();
}
