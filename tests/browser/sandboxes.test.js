// The list of sandboxes: live, filtered, hostile, long, by keyboard, in a narrow window.
import assert from 'node:assert/strict';
import { connect, createServer } from 'node:net';
import { test } from 'node:test';
import { accessible, api, API, close, enter, sandbox, shot, until, useBrowser } from './helpers.js';

useBrowser();

const grid = (page) => page.getByRole('grid', { name: 'Sandboxes' });
const row = (page, id) => grid(page).getByRole('row').filter({ hasText: id });
const state = async (id) => {
  try {
    return (await api('GET', `/sandboxes/${id}`)).state;
  } catch {
    return 'gone';
  }
};

test('the list follows what happens, without being asked', async () => {
  const page = await enter('/sandboxes');
  await until('events are live', async () => (await page.locator('nav .feed').getAttribute('data-feed')) === 'live');
  const id = await sandbox({ metadata: { purpose: 'news' } });
  await row(page, id).getByText('running').waitFor();
  await api('POST', `/sandboxes/${id}/pause`, {});
  await row(page, id).getByText('paused').waitFor();
  await api('POST', `/sandboxes/${id}/connect`, { timeout: 600 });
  await row(page, id).getByText('running').waitFor();
  await api('DELETE', `/sandboxes/${id}`);
  await row(page, id).waitFor({ state: 'detached' });
  await close(page);
});

test('without a stream of events the page says so, and asks', async () => {
  const page = await enter('/sandboxes', {
    prepare: (page) =>
      page.route('**/events/sandboxes?follow=true*', (route) => route.fulfill({ status: 404, json: { code: 404, message: 'no such route' } })),
  });
  await page.locator('nav').getByText('Asking every 3 s').waitFor();
  const id = await sandbox();
  await row(page, id).getByText('running').waitFor();
  await api('DELETE', `/sandboxes/${id}`);
  await row(page, id).waitFor({ state: 'detached' });
  await close(page);
});

/* A line to the daemon that can be cut. */
async function wire() {
  const to = new URL(API);
  const open = new Set();
  const server = createServer((near) => {
    const far = connect(Number(to.port), to.hostname);
    for (const end of [near, far]) {
      open.add(end);
      end.on('error', () => {});
      end.on('close', () => {
        near.destroy();
        far.destroy();
        open.delete(end);
      });
    }
    near.pipe(far).pipe(near);
  });
  const listen = (port) => new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  await listen(0);
  const { port } = server.address();
  const cut = () =>
    new Promise((resolve) => {
      server.close(resolve);
      for (const end of open) end.destroy();
    });
  return { url: `http://127.0.0.1:${port}`, cut, mend: () => listen(port) };
}

test('a stream that broke goes on behind the last event', async () => {
  const line = await wire();
  const page = await enter('/sandboxes', { web: line.url });
  const feed = page.locator('nav .feed');
  const is = (state) => until(`events are ${state}`, async () => (await feed.getAttribute('data-feed')) === state);
  await is('live');
  const first = await sandbox();
  await row(page, first).waitFor();
  await line.cut();
  await is('connecting');
  const missed = await sandbox();
  await line.mend();
  await is('live');
  await row(page, missed).waitFor();
  await row(page, first).waitFor();
  await close(page);
  await line.cut();
});

test('a sandbox is created in the dialog, with metadata, environment and a network', async () => {
  const page = await enter('/sandboxes');
  await page.getByRole('button', { name: 'Create sandbox' }).click();
  const dialog = page.getByRole('dialog', { name: 'Create a sandbox' });
  await dialog.getByLabel('Template').fill('no-such-template');
  await dialog.getByRole('button', { name: 'Create' }).click();
  assert.match(await dialog.getByRole('alert').innerText(), /template 'no-such-template' not found/);
  await dialog.getByLabel('Template').fill('base');
  await dialog.getByRole('group', { name: 'Metadata' }).getByRole('button', { name: 'Add' }).click();
  assert.ok(await dialog.getByLabel('Metadata: name 1').evaluate((field) => field === document.activeElement), 'the new line has the focus');
  await dialog.getByLabel('Metadata: name 1').fill('made');
  await dialog.getByLabel('Metadata: value 1').fill('in the browser');
  await dialog.getByLabel('Network').selectOption('some');
  await dialog.getByLabel('It may reach').fill('pypi.org 10.1.0.0/16');
  await accessible(page);
  await shot(page, 'sandboxes-create');
  await dialog.getByRole('button', { name: 'Create' }).click();
  await dialog.waitFor({ state: 'detached' });
  const list = await api('GET', '/v2/sandboxes?metadata=' + encodeURIComponent('made=' + encodeURIComponent('in the browser')));
  assert.equal(list.length, 1);
  const detail = await api('GET', `/sandboxes/${list[0].sandboxID}`);
  assert.deepEqual(detail.network.allowOut, ['pypi.org', '10.1.0.0/16']);
  assert.deepEqual(detail.network.denyOut, ['0.0.0.0/0']);
  await api('DELETE', `/sandboxes/${list[0].sandboxID}`);
  await close(page);
});

test('several are paused, resumed and killed at once', async () => {
  const ids = await Promise.all([0, 1, 2].map((n) => sandbox({ metadata: { bulk: `b${n}` } })));
  const other = await sandbox({ metadata: { other: 'yes' } });
  const page = await enter('/sandboxes');
  await page.getByLabel('Metadata, as name=value').fill('bulk');
  await until('three rows', async () => (await grid(page).getByRole('row').count()) === 4);
  await page.getByLabel('Select all rows').check();
  const bar = page.getByRole('toolbar', { name: 'Actions on the selected sandboxes' });
  await bar.getByText('3 sandboxes selected').waitFor();
  await shot(page, 'sandboxes-selected');
  await bar.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('3 sandboxes paused.').waitFor();
  for (const id of ids) assert.equal(await state(id), 'paused');
  await page.getByLabel('Select all rows').check();
  await until('all are shown paused', async () => (await grid(page).getByText('paused', { exact: true }).count()) === 3);
  await bar.getByRole('button', { name: 'Resume' }).click();
  await page.getByText('3 sandboxes resumed.').waitFor();
  for (const id of ids) assert.equal(await state(id), 'running');
  await page.getByLabel('Select all rows').check();
  await bar.getByRole('button', { name: 'Kill' }).click();
  const ask = page.getByRole('dialog', { name: 'Kill 3 sandboxes?' });
  await ask.getByRole('button', { name: 'Cancel' }).click();
  for (const id of ids) assert.equal(await state(id), 'running');
  await bar.getByRole('button', { name: 'Kill' }).click();
  await ask.getByRole('button', { name: 'Kill' }).click();
  await page.getByText('3 sandboxes killed.').waitFor();
  for (const id of ids) assert.equal(await state(id), 'gone');
  assert.equal(await state(other), 'running');
  await close(page);
});

const HOSTILE = [
  '<img src=x onerror="window.ran=1">',
  '"><script>window.ran=1</script>',
  "javascript:window.ran=1//'",
  '</span><svg onload=window.ran=1>',
  '\u202Egnp.exe {{constructor.constructor("window.ran=1")()}}',
];

test('hostile metadata stays text', async () => {
  const metadata = Object.fromEntries(HOSTILE.map((text, i) => [`${i}${text}`, text]));
  metadata.__proto__x = '1';
  const id = await sandbox({ metadata });
  const page = await enter('/sandboxes');
  await row(page, id).waitFor();
  await page.waitForTimeout(300);
  assert.equal(await page.evaluate(() => window.ran), undefined);
  const text = await row(page, id).innerText();
  assert.ok(text.includes(HOSTILE[0]), text);
  assert.equal(await grid(page).locator('img, script, svg[onload]').count(), 0);
  await page.getByLabel('Metadata, as name=value').fill('constructor');
  await page.getByText('No row matches the filter.').waitFor();
  await shot(page, 'sandboxes-no-match');
  await page.getByRole('button', { name: 'Clear' }).click();
  await row(page, id).waitFor();
  await shot(page, 'sandboxes-hostile');
  await close(page);
});

const MANY = 10_000;

function fake(i) {
  const start = Date.now() - i * 37_000;
  return {
    sandboxID: `i${String(i).padStart(20, '0')}`,
    templateID: `t${i % 7}`,
    alias: ['base', 'code-interpreter-v1', 'desktop', 'node-22', 'agents', 'mcp-gateway', 'data'][i % 7],
    state: i % 5 === 0 ? 'paused' : 'running',
    createdAt: new Date(start).toISOString(),
    startedAt: new Date(start).toISOString(),
    endAt: new Date(Date.now() + ((i * 7919) % 7200) * 1000).toISOString(),
    cpuCount: 2,
    memoryMB: 1024,
    diskSizeMB: 10240,
    metadata: { user: `user-${i % 97}`, run: `run-${i}` },
    ...(i % 5 ? { cpuUsedPct: (i * 13) % 200, memUsed: ((i * 31) % 1024) * 1048576, diskUsed: ((i * 17) % 900) * 1048576 } : {}),
    ...(i % 211 === 3 ? { lastError: { message: 'the agent did not answer within 10 s', at: new Date(start).toISOString() } } : {}),
  };
}

/* The list alone is made up: ten thousand real sandboxes do not fit this machine. */
async function withMany({ alias, ...options } = {}) {
  const page = await enter('/', options);
  await page.route('**/dashboard/sandboxes?*', async (route) => {
    const at = Number(new URL(route.request().url()).searchParams.get('cursor') ?? 0);
    const sandboxes = Array.from({ length: 1000 }, (_, i) => ({ ...fake(at + i), ...(alias ? { alias: alias(at + i) } : {}) }));
    await route.fulfill({ json: { sandboxes, nextCursor: at + 1000 < MANY ? String(at + 1000) : null, running: 8000, paused: 2000 } });
  });
  await page.goto(page.url().replace(/#.*/, '#/sandboxes'));
  await page.getByText('10,000 rows').waitFor();
  return page;
}

test('ten thousand rows stay usable', async () => {
  const page = await withMany();
  assert.ok((await grid(page).getByRole('row').count()) < 100, 'only the rows in view are drawn');
  assert.equal(await grid(page).getAttribute('aria-rowcount'), '10001');
  await accessible(page);
  await shot(page, 'sandboxes-many');
  await page.getByLabel('Filter by any text').fill('run-9999');
  await page.getByText('1 of 10,000 rows', { exact: true }).waitFor();
  await row(page, fake(9999).sandboxID).waitFor();
  await page.getByRole('button', { name: 'Clear' }).click();
  await page.getByLabel('State').selectOption('paused');
  await page.getByText('2,000 of 10,000 rows').waitFor();
  await page.getByLabel('Template').fill('desktop');
  await page.getByLabel('Metadata, as name=value').fill('user=user-12');
  await until('few rows', async () => Number((await page.locator('.table-foot').innerText()).match(/\d+/)[0]) < 100);
  await page.getByRole('button', { name: 'Clear' }).click();
  await grid(page).getByRole('button', { name: 'Memory' }).click();
  await until('sorted by memory', async () => (await grid(page).getByRole('columnheader', { name: 'Memory' }).getAttribute('aria-sort')) !== null);
  await page.getByLabel('Select all rows').check();
  await page.getByText('10,000 sandboxes selected').waitFor();
  await close(page);
});

test('every template can be chosen, however many there are', async () => {
  const page = await withMany({ alias: (i) => `template-${i}` });
  const field = page.getByLabel('Template');
  const offered = () => page.locator('#sandbox-filter-templates option').evaluateAll((all) => all.map((one) => one.value));
  assert.ok((await offered()).length <= 200);
  await field.fill('E-99');
  await page.getByText('111 of 10,000 rows', { exact: true }).waitFor();
  assert.ok((await offered()).includes('template-9999'), 'the last of all names is offered');
  await shot(page, 'sandboxes-template');
  await field.fill('template-99'); // a whole name is that template alone
  await page.getByText('1 of 10,000 rows', { exact: true }).waitFor();
  await row(page, fake(99).sandboxID).waitFor();
  await field.fill('no-such-template');
  await page.getByText('0 of 10,000 rows', { exact: true }).waitFor();
  await accessible(page);
  await close(page);
});

test('the keyboard is enough', async () => {
  const page = await withMany();
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'sandbox-filter');
  await grid(page).focus();
  await page.keyboard.press('End');
  await row(page, fake(9999).sandboxID).waitFor();
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Space');
  await page.getByText('1 sandbox selected').waitFor();
  const active = await grid(page).getAttribute('aria-activedescendant');
  assert.equal(await page.locator(`[id="${active}"]`).getAttribute('aria-selected'), 'true');
  await page.keyboard.press('Escape');
  await page.getByText('1 sandbox selected').waitFor({ state: 'detached' });
  await page.keyboard.press('?');
  const help = page.getByRole('dialog', { name: 'Keyboard' });
  await help.getByText('Create a sandbox').waitFor();
  await shot(page, 'keyboard');
  await page.keyboard.press('Escape');
  await help.waitFor({ state: 'detached' });
  await page.keyboard.press('c');
  await page.getByRole('dialog', { name: 'Create a sandbox' }).waitFor();
  assert.ok(await page.getByRole('dialog').getByLabel('Template', { exact: true }).evaluate((field) => field === document.activeElement), 'the first field has the focus');
  await page.keyboard.press('Escape');
  await page.keyboard.press('g');
  await page.keyboard.press('o');
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
  await close(page);
});

test('light colours, kept after a reload', async () => {
  const page = await withMany({ colorScheme: 'light' });
  assert.equal(await page.locator('html').getAttribute('data-theme'), 'light');
  await accessible(page);
  await shot(page, 'sandboxes-light');
  await page.getByRole('button', { name: /Colours as the system/ }).click();
  await page.getByRole('button', { name: /Light colours/ }).click();
  assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark');
  await page.reload();
  await page.getByRole('button', { name: /Dark colours/ }).waitFor();
  assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark');
  await close(page);
});

test('in a narrow window no button covers how many are selected', async () => {
  const id = await sandbox();
  const page = await enter('/sandboxes', { viewport: { width: 320, height: 700 } });
  await row(page, id).waitFor();
  await page.getByLabel('Select all rows').check();
  const bar = page.getByRole('toolbar', { name: 'Actions on the selected sandboxes' });
  const count = bar.locator('strong');
  await count.waitFor();
  const whole = await count.evaluate((node) => node.scrollWidth <= node.clientWidth);
  const text = await count.boundingBox();
  const button = await bar.getByRole('button', { name: 'Pause' }).boundingBox();
  const apart = button.x >= text.x + text.width || button.y >= text.y + text.height;
  assert.ok(whole && apart, JSON.stringify({ whole, text, button }));
  await shot(page, 'sandboxes-narrow-selected');
  await close(page);
});

test('a narrow window has a drawer, and nothing is cut off', async () => {
  const page = await withMany({ viewport: { width: 390, height: 780 } });
  await accessible(page);
  await shot(page, 'sandboxes-narrow');
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `the page is ${wide} px wide`);
  const link = page.getByRole('link', { name: 'Overview' });
  assert.equal(await link.isVisible(), false);
  await page.getByRole('button', { name: 'Show the pages' }).click();
  await link.waitFor();
  await shot(page, 'navigation-narrow');
  await link.click();
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
  await until('the drawer is closed', async () => !(await link.isVisible()));
  await close(page);
});
