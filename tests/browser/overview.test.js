// The overview: figures, history, events as they happen, the operator's part.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { accessible, api, close, enter, sandbox, shot, until, useBrowser } from './helpers.js';

useBrowser();

test('figures and events follow what happens', async () => {
  const page = await enter('/');
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
  const id = await sandbox();
  const events = page.getByRole('list', { name: 'The latest events' });
  const mine = events.getByRole('listitem').filter({ hasText: id });
  await mine.filter({ hasText: 'created' }).waitFor();
  const other = await sandbox();
  await api('POST', `/sandboxes/${other}/pause`, {});
  await events.getByRole('listitem').filter({ hasText: other }).filter({ hasText: 'paused' }).waitFor();
  await until('a sandbox is counted as paused', async () => /Paused\s+1/.test(await page.locator('.figures').innerText()));
  await page.locator('.chart canvas').first().waitFor();
  await accessible(page);
  await shot(page, 'overview');
  await page.emulateMedia({ colorScheme: 'light' });
  await accessible(page);
  await shot(page, 'overview-light');
  await page.setViewportSize({ width: 390, height: 780 });
  await shot(page, 'overview-narrow');
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `the page is ${wide} px wide`);
  await api('DELETE', `/sandboxes/${other}`);
  await events.getByRole('listitem').filter({ hasText: other }).filter({ hasText: 'killed' }).waitFor();
  await close(page);
});

test('the machine, the pool and the advice, as the operator sees them', async () => {
  const page = await enter('/');
  const figures = page.locator('.figures');
  await figures.getByText(/\d CPUs?$/).waitFor();
  for (const name of ['Load', 'Memory', 'Disk']) await figures.getByRole('meter', { name }).waitFor();
  assert.ok(!(await figures.innerText()).includes('of all teams'));
  await page.getByText('Ready in the pool').waitFor();
  const made = execFileSync(`${process.env.ATOLL_BUILD}/atoll`, ['admin-key', 'create', 'overview', '--data', process.env.ATOLL_DATA], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  await page.getByRole('button', { name: 'Act as the operator' }).click();
  const dialog = page.getByRole('dialog', { name: 'Act as the operator' });
  await dialog.getByLabel('Admin key').fill(/\S{20,}/.exec(made)[0]);
  await dialog.getByRole('button', { name: 'Add the rights' }).click();
  await figures.getByText(/of all teams/).first().waitFor();
  await page.getByText('Created, all teams').waitFor();
  await shot(page, 'overview-operator');
  await close(page);
});

test('what a machine lacks is said', async () => {
  const page = await enter('/', {
    prepare: (page) =>
      page.route('**/dashboard/overview', async (route) => {
        const answer = await route.fetch();
        const overview = answer.ok() ? await answer.json() : null;
        if (!overview) return route.fulfill({ response: answer });
        overview.machine.keeper = false;
        overview.machine.diskUsed = Math.round(overview.machine.diskTotal * 0.97);
        overview.advice = [{ verdict: 'missing', name: 'criu', sentence: 'pauses lose memory: <b>install CRIU</b>' }];
        return route.fulfill({ response: answer, json: overview });
      }),
  });
  await page.getByText(/The keeper, which starts sandboxes, is not connected/).waitFor();
  await page.getByText(/The disk of the sandboxes is 97 % full/).waitFor();
  await page.getByText('pauses lose memory: <b>install CRIU</b>').waitFor();
  await accessible(page);
  await shot(page, 'overview-advice');
  await close(page);
});
