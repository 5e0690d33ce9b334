// The page of one sandbox: the tabs that work inside it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { close, enter, sandbox, shot, until, useBrowser } from './helpers.js';
import { run } from './inside.js';

useBrowser();

const HOSTILE = '<img src=x onerror="window.ran=1">';
const panel = (page) => page.getByRole('tabpanel');
const harmless = async (page) => {
  assert.equal(await page.evaluate(() => window.ran), undefined);
  assert.equal(await page.locator('main script, main iframe, main img[src="x"]').count(), 0);
};

test('a process is signalled; its hostile name stays text', async () => {
  const id = await sandbox();
  await run(id, `setsid -f sleep 1234; setsid -f bash -c 'exec -a "${HOSTILE.replaceAll('"', '\\"')}" sleep 4321'`);
  const page = await enter(`/sandboxes/${id}/processes`);
  const rows = panel(page).getByRole('grid', { name: 'Processes' }).getByRole('row');
  await rows.filter({ hasText: 'sleep 1234' }).waitFor();
  await rows.filter({ hasText: 'onerror' }).waitFor();
  await harmless(page);
  await until('figures of the cpu', async () => /%/.test(await rows.filter({ hasText: 'sleep 1234' }).innerText()));
  await shot(page, 'sandbox-processes');
  await rows.filter({ hasText: 'sleep 1234' }).getByRole('button', { name: /Signal process/ }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Signal').selectOption('SIGKILL');
  await shot(page, 'sandbox-process-signal');
  await dialog.getByRole('button', { name: 'Send the signal' }).click();
  await rows.filter({ hasText: 'sleep 1234' }).waitFor({ state: 'detached' });
  assert.equal((await run(id, 'pgrep -f "sleep 123[4]" || true')).trim(), '');
  await close(page);
});

test('a sandbox without interpreter or desktop says what to do', async () => {
  const id = await sandbox();
  const page = await enter(`/sandboxes/${id}/code`);
  await panel(page).getByText('This sandbox has no code interpreter').waitFor();
  await shot(page, 'sandbox-code-none');
  await page.goto(page.url().replace('/code', '/desktop'));
  await panel(page).getByText('This sandbox has no desktop').waitFor();
  await shot(page, 'sandbox-desktop-none');
  await close(page);
});
