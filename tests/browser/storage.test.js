// Snapshots and volumes.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { api, API, close, enter, sandbox, shot, until, useBrowser } from './helpers.js';
import { run } from './inside.js';

useBrowser();

test('a snapshot is listed when it is made, starts a sandbox, and is deleted', async () => {
  const page = await enter('/snapshots');
  await page.getByRole('heading', { name: 'No snapshots' }).waitFor();
  await shot(page, 'snapshots-empty');
  await until('events are live', async () => (await page.locator('nav .feed').getAttribute('data-feed')) === 'live');
  const id = await sandbox();
  const { snapshotID } = await api('POST', `/sandboxes/${id}/snapshots`, { name: 'kept' });
  const row = page.getByRole('grid', { name: 'Snapshots' }).getByRole('row').filter({ hasText: snapshotID });
  await row.waitFor();
  await row.getByRole('link', { name: id }).waitFor();
  await shot(page, 'snapshots');
  await row.getByRole('button', { name: 'Start' }).click();
  const dialog = page.getByRole('dialog', { name: 'Create a sandbox' });
  assert.equal(await dialog.getByLabel('Template').inputValue(), snapshotID);
  await dialog.getByRole('button', { name: 'Create' }).click();
  await page.getByText(/Sandbox \w+ runs/).waitFor();
  const started = (await api('GET', '/v2/sandboxes')).find((one) => one.sandboxID !== id);
  await api('DELETE', `/sandboxes/${started.sandboxID}`);
  await page.goto(page.url().replace(/#.*/, '#/snapshots'));
  await page.getByRole('button', { name: `Delete ${snapshotID}` }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await row.waitFor({ state: 'detached' });
  assert.deepEqual(await api('GET', '/snapshots'), []);
  await close(page);
});

test('a snapshot that is deleted elsewhere leaves the list', async () => {
  const id = await sandbox();
  const { snapshotID } = await api('POST', `/sandboxes/${id}/snapshots`, { name: 'elsewhere' });
  const page = await enter('/snapshots');
  const row = page.getByRole('grid', { name: 'Snapshots' }).getByRole('row').filter({ hasText: snapshotID });
  await row.waitFor();
  await api('DELETE', `/templates/${encodeURIComponent(snapshotID.replace(/:.*/, ''))}`);
  await row.waitFor({ state: 'detached' });
  await close(page);
});

test('a directory of a volume shows what a sandbox writes there', async () => {
  const { volumeID } = await api('POST', '/volumes', { name: 'written' });
  const id = await sandbox({ volumeMounts: [{ name: 'written', path: '/data' }] });
  const page = await enter(`/volumes/${volumeID}`);
  await page.getByRole('heading', { name: 'Nothing here' }).waitFor();
  await run(id, 'echo from inside > /data/result.txt');
  const file = page.getByRole('grid', { name: 'Files in /' }).getByRole('button', { name: 'result.txt', exact: true });
  await file.waitFor();
  await run(id, 'rm /data/result.txt');
  await file.waitFor({ state: 'detached' });
  await api('DELETE', `/sandboxes/${id}`);
  await api('DELETE', `/volumes/${volumeID}`);
  await close(page);
});

const HOSTILE = '<img src=x onerror="window.ran=1">.txt';

test('a volume is created, browsed, uploaded to, downloaded from and deleted', async () => {
  const page = await enter('/volumes');
  await page.getByRole('heading', { name: 'No volumes' }).waitFor();
  await page.keyboard.press('c');
  const dialog = page.getByRole('dialog', { name: 'Create a volume' });
  await dialog.getByLabel('Name').fill('not a name');
  await dialog.getByRole('button', { name: 'Create' }).click();
  await dialog.getByRole('alert').waitFor();
  await dialog.getByLabel('Name').fill('data');
  await dialog.getByRole('button', { name: 'Create' }).click();
  await dialog.waitFor({ state: 'detached' });
  const id = await sandbox({ volumeMounts: [{ name: 'data', path: '/data' }] });
  const grid = page.getByRole('grid', { name: 'Volumes' });
  await grid.getByRole('link', { name: id }).waitFor();
  await shot(page, 'volumes');
  await grid.getByRole('link', { name: 'data', exact: true }).click();
  await page.getByRole('heading', { name: 'Nothing here' }).waitFor();

  const file = (name, text) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(text) });
  await page.getByLabel('Files to upload').setInputFiles([file('notes.txt', 'written in the browser\n'), file(HOSTILE, '<script>window.ran=1</script>')]);
  await page.getByText('2 files uploaded.').waitFor();
  const files = page.getByRole('grid', { name: 'Files in /' });
  await files.getByRole('button', { name: 'notes.txt', exact: true }).click();
  await page.getByRole('dialog', { name: 'notes.txt' }).getByText('written in the browser').waitFor();
  await page.keyboard.press('Escape');
  await files.getByRole('button', { name: HOSTILE, exact: true }).click();
  await page.getByRole('dialog').getByText('<script>').waitFor();
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => window.ran), undefined);

  await page.getByRole('button', { name: 'New directory' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('inner');
  await page.getByRole('dialog').getByRole('button', { name: 'Make it' }).click();
  await files.getByRole('button', { name: 'inner', exact: true }).waitFor();
  await shot(page, 'volume');
  const { token, volumeID } = await api('GET', `/volumes/${(await api('GET', '/volumes'))[0].volumeID}`);
  const answer = await fetch(`${API}/volumecontent/${volumeID}/file?path=${encodeURIComponent('/notes.txt')}`, { headers: { Authorization: `Bearer ${token}` } });
  assert.equal(await answer.text(), 'written in the browser\n');

  const [download] = await Promise.all([page.waitForEvent('download'), files.getByRole('button', { name: 'Download notes.txt' }).click()]);
  assert.equal(readFileSync(await download.path(), 'utf8'), 'written in the browser\n');
  await files.getByRole('button', { name: 'inner', exact: true }).click();
  await page.getByRole('heading', { name: 'Nothing here' }).waitFor();
  await page.getByRole('navigation', { name: 'Directory' }).getByRole('button', { name: 'data' }).click();
  await files.getByRole('button', { name: `Delete ${HOSTILE}` }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await files.getByRole('button', { name: HOSTILE, exact: true }).waitFor({ state: 'detached' });

  await page.goto(page.url().replace(/#.*/, '#/volumes'));
  await page.getByRole('button', { name: 'Delete the volume data' }).click();
  const ask = page.getByRole('dialog');
  await ask.getByText(id).waitFor(); // who has it
  await shot(page, 'volume-delete');
  await ask.getByRole('button', { name: 'Delete' }).click();
  await ask.waitFor({ state: 'detached' });
  assert.deepEqual(await api('GET', '/volumes'), []);
  await close(page);
});
