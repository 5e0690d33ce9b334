// The overview: figures, history, events as they happen, the operator's part.
import assert from 'node:assert/strict';
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
