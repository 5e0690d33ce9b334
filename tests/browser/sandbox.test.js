// The page of one sandbox: its head, and the tabs that look at it from outside.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createServer } from 'node:http';
import { accessible, api, close, enter, sandbox, shot, until, useBrowser } from './helpers.js';
import { run } from './inside.js';

useBrowser();

const HOSTILE = '<img src=x onerror="window.ran=1">';
const panel = (page) => page.getByRole('tabpanel');
const tab = (page, name) => page.getByRole('tablist', { name: 'Parts of the sandbox' }).getByRole('tab', { name });
const harmless = async (page) => {
  assert.equal(await page.evaluate(() => window.ran), undefined);
  assert.equal(await page.locator('main img, main script, main iframe').count(), 0);
};

test('the head tells what it is, and changes by itself', async () => {
  const id = await sandbox({ metadata: { user: 'ann', [HOSTILE]: HOSTILE } });
  const page = await enter(`/sandboxes/${id}/events`);
  const head = page.locator('.box-head');
  await head.getByText('running').waitFor();
  assert.match(await head.innerText(), /base/);
  assert.ok((await head.innerText()).includes(`${HOSTILE}=${HOSTILE}`));
  await harmless(page);
  await api('POST', `/sandboxes/${id}/timeout`, { timeout: 7200 });
  await until('the time left follows', async () => /Ends in (1h 59m|2h)/.test(await head.innerText()));
  await head.getByRole('button', { name: 'Set time' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('From now on it runs for').selectOption('900');
  await dialog.getByRole('button', { name: 'Set' }).click();
  await until('15 minutes are left', async () => /Ends in (14m|15m)/.test(await head.innerText()));
  await close(page);
});

test('pause, resume, snapshot, fork and kill are clicked, and the family shows them', async () => {
  const id = await sandbox();
  const page = await enter(`/sandboxes/${id}/terminal`);
  const head = page.locator('.box-head');
  await head.getByRole('button', { name: 'Pause' }).click();
  await panel(page).getByText('The sandbox is paused').waitFor();
  assert.equal((await api('GET', `/sandboxes/${id}`)).state, 'paused');
  await shot(page, 'sandbox-paused');
  await panel(page).getByRole('button', { name: 'Resume' }).click();
  await head.getByText('running').waitFor();

  await head.getByRole('button', { name: 'Snapshot' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill(`snap-${id}`);
  await page.getByRole('dialog').getByRole('button', { name: 'Make a snapshot' }).click();
  await page.getByText(/Snapshot .* is made/).waitFor();

  await head.getByRole('button', { name: 'Fork' }).click();
  await page.getByRole('dialog').getByLabel('Copies').fill('2');
  await page.getByRole('dialog').getByRole('button', { name: 'Fork' }).click();
  await page.getByText('2 copies made.').waitFor();
  const tree = panel(page).getByRole('group', { name: 'The family of the sandbox' });
  await until('four nodes are drawn', async () => (await tree.getByRole('link').count()) === 4);
  assert.equal(await tree.locator('[aria-current="true"]').getAttribute('data-id'), id);
  const { nodes } = await api('GET', `/sandboxes/${id}/lineage`);
  const forks = nodes.filter((node) => node.kind === 'sandbox' && node.parentID === id).map((node) => node.id);
  assert.equal(forks.length, 2);
  await api('POST', `/sandboxes/${forks[0]}/pause`, {});
  await until('a paused fork is shown', async () => (await tree.locator(`[data-id="${forks[0]}"].info`).count()) === 1);
  await shot(page, 'sandbox-family');
  await tree.locator(`[data-id="${id}"]`).focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowDown');
  const focused = await page.evaluate(() => document.activeElement.dataset.id);
  assert.ok(focused && focused !== id);
  await tree.locator(`[data-id="${forks[1]}"]`).click();
  await page.getByRole('heading', { name: forks[1] }).waitFor();

  await head.getByRole('button', { name: 'Kill' }).click();
  const ask = page.getByRole('dialog', { name: 'Kill the sandbox' });
  await ask.getByRole('button', { name: 'Cancel' }).click();
  assert.equal((await api('GET', `/sandboxes/${forks[1]}`)).state, 'running');
  await head.getByRole('button', { name: 'Kill' }).click();
  await ask.getByRole('button', { name: 'Kill' }).click();
  await head.getByText('killed').waitFor();
  await tab(page, 'Terminal').click();
  await panel(page).getByText('The sandbox is gone').waitFor();
  assert.match(await panel(page).innerText(), /request/);
  await shot(page, 'sandbox-gone');
  for (const where of ['the page that saw its end', 'a page that is loaded later']) {
    await tab(page, 'Figures').click();
    await panel(page).getByText('No figures are kept').waitFor();
    await tab(page, 'Network').click();
    await panel(page).getByText('No connections are kept').waitFor();
    assert.equal(await panel(page).getByRole('alert').count(), 0, where);
    await page.reload();
  }
  await api('DELETE', `/sandboxes/${forks[0]}`);
  await api('DELETE', `/templates/${encodeURIComponent(`snap-${id}`)}`).catch(() => {});
  await close(page);
});

test('events are a timeline with reasons', async () => {
  const id = await sandbox();
  const page = await enter(`/sandboxes/${id}/events`);
  const items = panel(page).getByRole('listitem');
  await items.filter({ hasText: 'Created' }).waitFor();
  await api('POST', `/sandboxes/${id}/pause`, {});
  await items.filter({ hasText: 'Paused' }).waitFor();
  await api('POST', `/sandboxes/${id}/connect`, { timeout: 600 });
  await items.filter({ hasText: 'Resumed' }).waitFor();
  const [{ sandbox: copy }] = await api('POST', `/sandboxes/${id}/fork`, { count: 1 });
  await items.filter({ hasText: `Forked: the copy is ${copy.sandboxID}` }).waitFor();
  await api('DELETE', `/sandboxes/${copy.sandboxID}`);
  await api('DELETE', `/sandboxes/${id}`);
  await items.filter({ hasText: 'Ended' }).waitFor();
  assert.match(await items.first().innerText(), /Ended\s*: request/);
  await items.first().getByRole('button', { name: 'Show the event' }).click();
  await items.first().getByText('sandbox.lifecycle.killed').waitFor();
  await shot(page, 'sandbox-events');
  await close(page);
});

test('a refused connection is shown with its rule, and rules are changed', async () => {
  const id = await sandbox({ network: { denyOut: ['0.0.0.0/0'], allowOut: ['example.com'] } });
  const page = await enter(`/sandboxes/${id}/network`);
  await panel(page).getByText('example.com', { exact: true }).waitFor();
  await run(id, 'curl -sm 5 http://1.1.1.1/ || true');
  const row = panel(page).getByRole('grid', { name: 'Connections' }).getByRole('row').filter({ hasText: '1.1.1.1' });
  await row.getByText('refused').waitFor();
  assert.match(await row.innerText(), /Denied: everything/);
  await shot(page, 'sandbox-network');
  await panel(page).getByRole('button', { name: 'Change' }).click();
  const dialog = page.getByRole('dialog', { name: 'Rules for outgoing traffic' });
  await dialog.getByLabel('Denied', { exact: true }).fill('not an address');
  await dialog.getByRole('button', { name: 'Use these rules' }).click();
  await dialog.getByRole('alert').waitFor();
  assert.match(await dialog.getByRole('alert').innerText(), /invalid denied CIDR not/, "it is the daemon's sentence");
  await shot(page, 'sandbox-network-rules');
  await dialog.getByLabel('Denied', { exact: true }).fill('1.1.1.1\nexample.com');
  await dialog.getByRole('button', { name: 'Use these rules' }).click();
  await dialog.getByText('example.com is a name').waitFor();
  await dialog.getByLabel('Denied', { exact: true }).fill('1.1.1.1');
  await dialog.getByRole('button', { name: 'Use these rules' }).click();
  await dialog.getByText('names can be allowed only where everything else is denied').waitFor();
  await dialog.getByLabel('Allowed', { exact: true }).fill('example.com\n*.example.org');
  await dialog.getByLabel('Denied', { exact: true }).fill('0.0.0.0/0');
  await dialog.getByRole('button', { name: 'Use these rules' }).click();
  await dialog.waitFor({ state: 'detached' });
  await panel(page).getByText('*.example.org').waitFor();
  assert.deepEqual((await api('GET', `/sandboxes/${id}`)).network.allowOut, ['example.com', '*.example.org']);
  await close(page);
});

const NOBODYS = '198.51.100.1';

test('a connection that was let through is shown with its rule and its bytes', async () => {
  const there = process.env.ATOLL_BEHIND;
  assert.ok(there, `the daemon needs --egress-map ${NOBODYS}=ADDRESS:PORT, and ATOLL_BEHIND the same ADDRESS:PORT, as in tools/test`);
  const server = createServer((request, response) => response.end('x'.repeat(5000)));
  const [address, port] = there.split(':');
  await new Promise((resolve, reject) => server.on('error', reject).listen(Number(port), address, resolve));
  try {
    const id = await sandbox({ network: { denyOut: ['0.0.0.0/0'], allowOut: [NOBODYS] } });
    const page = await enter(`/sandboxes/${id}/network`);
    await panel(page).getByText('No connections').waitFor();
    await run(id, `curl -sf -o /dev/null http://${NOBODYS}/`);
    const row = panel(page).getByRole('grid', { name: 'Connections' }).getByRole('row').filter({ hasText: NOBODYS });
    await row.getByText('reached').waitFor();
    assert.match(await row.innerText(), /Allowed: 198\.51\.100\.1/);
    await until('its bytes are counted', async () => /[5-9]\.\d k/i.test(await row.innerText()));
    await shot(page, 'sandbox-network-reached');
    await panel(page).getByLabel('Outcome').selectOption('refused');
    await panel(page).getByText('No connection had this outcome.').waitFor();
    await close(page);
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

test('figures are drawn, and grow', async () => {
  const id = await sandbox();
  await run(id, "setsid -f timeout 60 sh -c 'while :; do :; done'");
  const page = await enter(`/sandboxes/${id}/figures`);
  const chart = panel(page).getByRole('img', { name: 'CPU over time' });
  await chart.locator('canvas').waitFor();
  await until('the cpu is busy', async () => parseFloat(await panel(page).locator('.figure .value').first().innerText()) > 1);
  await until('CPU, memory, disk and network are drawn', async () => (await panel(page).locator('canvas').count()) === 4);
  await page.waitForTimeout(6000); // some more points to look at
  await shot(page, 'sandbox-figures');
  await close(page);
});

test('figures and the age begin with the sandbox, and not with its resume', async () => {
  const id = await sandbox();
  const { createdAt } = await api('GET', `/sandboxes/${id}`);
  await until('a second has passed', () => Date.now() > new Date(createdAt).getTime() + 1500);
  await api('POST', `/sandboxes/${id}/pause`, {});
  await api('POST', `/sandboxes/${id}/connect`, { timeout: 600 });
  const asked = [];
  const page = await enter('/', { prepare: (one) => one.on('request', (request) => asked.push(new URL(request.url()))) });
  await page.goto(page.url().replace(/#.*/, `#/sandboxes/${id}/figures`));
  const first = () => asked.find((url) => url.pathname.endsWith(`/${id}/metrics`));
  await until('it asks for figures', () => first() !== undefined);
  assert.equal(Number(first().searchParams.get('start')), Math.floor(new Date(createdAt).getTime() / 1000));
  await close(page);
});

test('the log is followed, searched, and stays text', async () => {
  const id = await sandbox();
  const page = await enter(`/sandboxes/${id}/logs`);
  await panel(page).getByText('No lines').waitFor();
  await run(id, `: the first line; echo '${HOSTILE}'\n: '</pre><script>window.ran=1</script>'`);
  const log = panel(page).getByRole('log');
  await log.getByText('onerror').waitFor();
  await harmless(page);
  await panel(page).getByLabel('Search in the log').fill('the first line');
  await until('one line is left', async () => (await log.locator('.log-line').count()) === 1);
  await panel(page).getByLabel('Search in the log').fill('');
  await run(id, 'echo it goes on; exit 0');
  await log.getByText('it goes on').waitFor();
  await shot(page, 'sandbox-logs');
  await close(page);
});

test('a port opens as another origin', async () => {
  const id = await sandbox();
  const page = await enter(`/sandboxes/${id}/ports`);
  await panel(page).getByText('Nothing listens').waitFor();
  await run(id, 'mkdir -p /tmp/w && cd /tmp/w && echo "<h1>served inside</h1>" > index.html && setsid -f python3 -m http.server 8000 >/dev/null 2>&1');
  const link = panel(page).getByRole('link', { name: new RegExp(`8000-${id}`) });
  await link.waitFor();
  assert.match(await link.getAttribute('rel'), /noopener/);
  await shot(page, 'sandbox-ports');
  const address = await link.getAttribute('href');
  assert.notEqual(new URL(address).origin, new URL(page.url()).origin);
  const answer = await page.context().newPage().then(async (other) => {
    await other.goto(address);
    const text = await other.locator('h1').innerText();
    await other.close();
    return text;
  });
  assert.equal(answer, 'served inside');
  await panel(page).getByLabel('Another port').fill('3000');
  await panel(page).getByRole('link', { name: /Open .*3000-/ }).waitFor();
  await close(page);
});

test('a sandbox that never was', async () => {
  const page = await enter('/sandboxes/inosuchsandbox0000000/terminal');
  await panel(page).getByText('The sandbox is gone').waitFor();
  assert.match(await panel(page).innerText(), /doesn't exist/);
  await close(page);
});

test('the tabs work with the keyboard, in a narrow window, in light colours', async () => {
  const id = await sandbox({ metadata: { user: 'ann' } });
  const page = await enter(`/sandboxes/${id}/events`, { viewport: { width: 390, height: 780 }, colorScheme: 'light' });
  await panel(page).getByText('Created').waitFor();
  await tab(page, 'Events').focus();
  await page.keyboard.press('ArrowLeft');
  await page.waitForURL(/\/logs$/);
  const looked = ['Files', 'Processes', 'Figures', 'Logs', 'Ports', 'Network', 'Family', 'Code', 'Desktop', 'Events'];
  for (const name of [...looked, 'Terminal']) {
    await tab(page, name).click();
    await panel(page).locator('.waiting').waitFor({ state: 'detached' });
    await page.waitForTimeout(600);
    if (looked.includes(name)) await accessible(page);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `${name} is ${wide} px wide`);
    await shot(page, `sandbox-narrow-${name.toLowerCase()}`);
  }
  await close(page);
});

test('a session that may only read sees no buttons', async () => {
  const { key, id: keyId } = await api('POST', '/api-keys', { name: 'reader', readOnly: true });
  const id = await sandbox();
  const page = await enter(`/sandboxes/${id}`, { key });
  await tab(page, 'Figures').waitFor();
  for (const name of ['Pause', 'Fork', 'Kill', 'Snapshot', 'Set time']) assert.equal(await page.getByRole('button', { name, exact: true }).count(), 0, name);
  assert.equal(await tab(page, 'Terminal').count(), 0);
  await tab(page, 'Network').click();
  await panel(page).getByText('No connections').waitFor();
  assert.equal(await panel(page).getByRole('button', { name: 'Change' }).count(), 0);
  await shot(page, 'sandbox-read-only');
  await close(page);
  await api('DELETE', `/api-keys/${keyId}`);
});
