// Secrets, API shells, keys, teams; a session that may only read; one of the operator.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { api, API, close, enter, sandbox, shot, until, useBrowser } from './helpers.js';

useBrowser();

const VALUE = 'sk-live-c0ffee-never-shown-31337';
const whole = (page) =>
  page.evaluate(() => document.documentElement.outerHTML + [...document.querySelectorAll('input, textarea')].map((field) => field.value).join('\n'));
const nowhere = async (page, text) => assert.ok(!(await whole(page)).includes(text), `${text} is in the page`);

test('a secret is set, and its value is nowhere afterwards', async () => {
  const page = await enter('/secrets');
  await page.getByRole('heading', { name: 'No secrets' }).waitFor();
  await shot(page, 'secrets-empty');
  await page.getByRole('button', { name: 'Set a secret' }).click();
  const dialog = page.getByRole('dialog', { name: 'Set a secret' });
  await dialog.getByLabel('Name', { exact: true }).fill('payment');
  await dialog.getByLabel('Value').fill(VALUE);
  assert.equal(await dialog.getByLabel('Value').getAttribute('type'), 'password');
  await shot(page, 'secret-set');
  await dialog.getByRole('button', { name: 'Set', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  const grid = page.getByRole('grid', { name: 'Secrets' });
  await grid.getByText('payment', { exact: true }).waitFor();
  await nowhere(page, VALUE);
  assert.ok(!JSON.stringify(await api('GET', '/secrets')).includes(VALUE));
  await page.getByRole('button', { name: 'New value' }).click();
  await page.getByRole('dialog').getByLabel('Value').fill(`${VALUE}-2`);
  await page.getByRole('dialog').getByRole('button', { name: 'Set', exact: true }).click();
  await until('the second version', async () => (await api('GET', '/secrets'))[0].currentVersion === 2);
  await shot(page, 'secrets');
  await page.reload();
  await grid.getByText('payment', { exact: true }).waitFor();
  await nowhere(page, VALUE);
  assert.ok(!(await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]))).includes(VALUE));
  await page.getByRole('button', { name: 'Delete payment' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await grid.getByText('payment', { exact: true }).waitFor({ state: 'detached' });
  assert.deepEqual(await api('GET', '/secrets'), []);
  await close(page);
});

test('an API shell is made with a value that nobody sees again', async () => {
  const page = await enter('/secrets');
  await page.getByRole('tab', { name: 'API shells' }).click();
  await page.getByRole('button', { name: 'Create shell' }).click();
  const dialog = page.getByRole('dialog', { name: 'Create an API shell' });
  await dialog.getByLabel('Name').fill('github');
  await dialog.getByLabel('Address of the API').fill('https://api.github.com');
  await dialog.getByLabel('POST').check();
  await dialog.getByLabel('with the value').fill(`Bearer ${VALUE}`);
  await dialog.getByLabel('What it is for').fill('<script>window.ran=1</script>');
  await shot(page, 'shell-create');
  await dialog.getByRole('button', { name: 'Create' }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByRole('grid', { name: 'API shells' }).getByText('sealed').waitFor();
  await nowhere(page, VALUE);
  assert.equal(await page.evaluate(() => window.ran), undefined);
  const [shell] = await api('GET', '/shells');
  assert.deepEqual(shell.methods, ['GET', 'POST']);
  await shot(page, 'shells');
  await page.getByRole('button', { name: 'Delete github' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await until('it is gone', async () => (await api('GET', '/shells')).length === 0);
  await close(page);
});

async function makeKey(page, name, { readOnly = false, sandboxes } = {}) {
  await page.getByRole('button', { name: 'Create key' }).click();
  const dialog = page.getByRole('dialog', { name: 'Create an API key' });
  await dialog.getByLabel('Name').fill(name);
  if (readOnly) await dialog.getByLabel('It may only read').check();
  if (sandboxes) await dialog.getByLabel('Sandboxes').fill(String(sandboxes));
  await shot(page, 'key-create');
  await dialog.getByRole('button', { name: 'Create' }).click();
  const once = page.getByRole('dialog', { name: `The key ${name}` });
  const text = await once.locator('code').innerText();
  await shot(page, 'key-once');
  await once.getByRole('button', { name: 'I have it' }).click();
  await once.waitFor({ state: 'detached' });
  return text;
}

const NAME = 'ci <img src=x onerror="window.ran=1">';

test('a key is made, shown once, works, and is revoked', async () => {
  const page = await enter('/keys');
  const key = await makeKey(page, NAME, { sandboxes: 2 });
  assert.match(key, /^e2b_[0-9a-f]{40}$/);
  assert.equal((await fetch(`${API}/v2/sandboxes`, { headers: { 'X-API-Key': key } })).status, 200);
  const row = page.getByRole('grid', { name: 'API keys' }).getByRole('row').filter({ hasText: NAME });
  await row.getByText('2 sandboxes').waitFor();
  await nowhere(page, key);
  assert.equal(await page.evaluate(() => window.ran), undefined);
  await page.getByText('this session').waitFor();
  await shot(page, 'keys');
  await row.getByRole('button', { name: `Revoke ${NAME}` }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await row.waitFor({ state: 'detached' });
  assert.equal((await fetch(`${API}/v2/sandboxes`, { headers: { 'X-API-Key': key } })).status, 401);
  await close(page);
});

/* Each page, with the buttons that its owner has and what both wait for. */
const PAGES = {
  '/templates': { owner: ['Create from a Dockerfile'] },
  '/templates/TEMPLATE': { owner: ['Start a sandbox', 'Build again', 'Delete'], ready: 'h2:text("Builds")', name: 'template' },
  '/snapshots': { owner: ['Start', 'Delete SNAPSHOT'] },
  '/volumes': { owner: ['Create volume', 'Delete the volume data'] },
  '/secrets': { owner: ['Set a secret', 'New value', 'Delete shared'] },
  '/keys': { owner: ['Create key', 'Revoke default', 'Change default'] },
  '/teams': { owner: ['Act as the operator'], ready: '.meter, :text("no limit")' },
  '/webhooks': { owner: ['Create webhook'] },
  '/webhooks/HOOK': { owner: ['Send a test', 'Turn on', 'Change', 'Delete'], ready: ':text("Nothing was sent yet")', name: 'webhook' },
  '/tools/run_code': { owner: ['Run'], ready: '.tools form' },
  '/audit': { owner: [] },
  '/mcp': { owner: [], ready: '.copy-line' },
  '/settings': { owner: [], ready: 'h2:text("This session")' },
};

/* All that a page may offer to somebody who only reads: it copies, loads, sorts, or asks the daemon for nothing. */
const HARMLESS = /^(Copy.*|Following|Follow|Load .* again|Download|Clear)$/;
const buttons = (page) =>
  page.locator('main :is(button:not([role="tab"]):not([role="columnheader"] *), [role="switch"])').evaluateAll((all) => all.map((one) => (one.ariaLabel || one.innerText || one.title).trim()));

test('a session that may only read has no buttons that would be refused', async () => {
  const id = await sandbox();
  const { snapshotID } = await api('POST', `/sandboxes/${id}/snapshots`, { name: 'ro' });
  const volume = await api('POST', '/volumes', { name: 'data' });
  const secret = await api('POST', '/secrets', { name: 'shared', value: 'x' });
  const hook = await api('POST', '/events/webhooks', { name: 'ro', url: 'http://127.0.0.1:9/', events: ['sandbox.lifecycle.killed'], signatureSecret: 'x', enabled: false });
  const template = await api('POST', '/v3/templates', { name: 'looked-at', cpuCount: 1, memoryMB: 512 });
  const owner = await enter('/keys');
  const key = await makeKey(owner, 'looker', { readOnly: true });
  const reader = await enter('/', { key });
  await reader.getByText('read only').waitFor();
  const real = (text) => text.replace('TEMPLATE', template.templateID).replace('SNAPSHOT', snapshotID).replace('HOOK', hook.id);
  for (const [path, { owner: names, ready = '.table-foot', name }] of Object.entries(PAGES)) {
    for (const page of [owner, reader]) {
      await page.goto(page.url().replace(/#.*/, `#${real(path)}`));
      await page.locator('main').locator(ready).first().waitFor();
    }
    for (const one of names) await owner.locator('main').getByRole('button', { name: real(one), exact: true }).first().waitFor();
    for (const one of await buttons(reader)) assert.match(one, HARMLESS, `${path} has a button that a reader may not use`);
    await shot(reader, `read-only${name ? `-${name}` : path.replaceAll('/', '-')}`);
  }
  await reader.goto(reader.url().replace(/#.*/, `#/volumes/${volume.volumeID}`));
  await reader.getByText('it is given to other keys alone').waitFor();
  await reader.goto(reader.url().replace(/#.*/, '#/tools'));
  await reader.getByText('Choose a tool').waitFor();
  assert.equal(await reader.getByRole('button', { name: /Try/ }).count(), 0);
  await reader.goto(reader.url().replace(/#.*/, '#/templates/new'));
  await reader.getByText('This session may only read.').waitFor();
  await close(reader);
  await close(owner);
  await api('DELETE', `/templates/${encodeURIComponent(snapshotID.replace(/:.*/, ''))}`);
  await api('DELETE', `/templates/${template.templateID}`);
  await api('DELETE', `/volumes/${volume.volumeID}`);
  await api('DELETE', `/secrets/${secret.secretID}`);
  await api('DELETE', `/events/webhooks/${hook.id}`);
  const looker = (await api('GET', '/api-keys')).find((one) => one.name === 'looker');
  await api('DELETE', `/api-keys/${looker.id}`);
});

test('a team sees its usage; an admin key shows all teams, their limits and keys', async () => {
  const output = execFileSync(`${process.env.ATOLL_BUILD}/atoll`, ['admin-key', 'create', 'browser', '--data', process.env.ATOLL_DATA], { encoding: 'utf8' });
  const admin = output.trim().split(/\s+/).find((word) => word.length > 30);
  const page = await enter('/teams');
  await page.getByRole('heading', { name: 'Usage and limits' }).waitFor();
  await page.getByText('no limit').first().waitFor();
  assert.equal(await page.getByRole('grid', { name: 'Teams' }).count(), 0);
  await shot(page, 'usage');
  await page.getByRole('main').getByRole('button', { name: 'Act as the operator' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Admin key').fill('wrong');
  await dialog.getByRole('button', { name: 'Add the rights' }).click();
  await dialog.getByRole('alert').waitFor();
  await dialog.getByLabel('Admin key').fill(admin);
  await dialog.getByRole('button', { name: 'Add the rights' }).click();
  const teams = page.getByRole('grid', { name: 'Teams' });
  await teams.getByRole('link', { name: 'default', exact: true }).waitFor();
  assert.doesNotMatch(await teams.innerText(), /default\s+default/);
  assert.match(await page.locator('.side-foot .who').innerText(), /Team default\s+Key \S/);
  await nowhere(page, admin);
  await page.getByRole('button', { name: 'Create team' }).click();
  const create = page.getByRole('dialog', { name: 'Create a team' });
  await create.getByLabel('Name').fill('analysts');
  await create.getByLabel('Sandboxes').fill('3');
  await create.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('heading', { name: 'Teams / analysts' }).waitFor();
  await page.getByText('of 3').waitFor();
  const key = await makeKey(page, 'first');
  const made = await api('POST', '/v2/sandboxes', { templateID: 'base', timeout: 600 }, key);
  await page.getByRole('button', { name: 'Change limits' }).click();
  await page.getByRole('dialog').getByLabel('Sandboxes').fill('5');
  await page.getByRole('dialog').getByLabel('CPUs').fill('8');
  await page.getByRole('dialog').getByRole('button', { name: 'Change' }).click();
  await page.getByText('of 5').waitFor();
  await page.getByText('of 8').waitFor();
  await shot(page, 'team');
  await page.getByRole('button', { name: 'Kill its sandboxes' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Kill them all' }).click();
  await page.getByText('1 sandbox killed.').waitFor();
  assert.equal((await fetch(`${API}/sandboxes/${made.sandboxID}`, { headers: { 'X-API-Key': key } })).status, 404);
  await page.goto(page.url().replace(/#.*/, '#/teams'));
  await teams.getByRole('link', { name: 'analysts' }).waitFor();
  await shot(page, 'teams');
  await close(page);
});

test('a narrow window has room for the dialogs', async () => {
  const page = await enter('/keys', { viewport: { width: 390, height: 780 }, colorScheme: 'light' });
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('x');
  await shot(page, 'key-create-narrow');
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await close(page);
});

test('the audit log says who did what, and goes on by itself', async () => {
  const page = await enter('/audit');
  const grid = page.getByRole('grid', { name: 'Audit' });
  await page.locator('.table-foot').waitFor();
  const { secretID } = await api('POST', '/secrets', { name: 'audited', value: VALUE });
  await grid.getByText('secret.create').first().waitFor();
  await api('DELETE', `/secrets/${secretID}`);
  const row = grid.getByRole('row').filter({ hasText: 'secret.delete' }).first();
  await row.waitFor();
  await nowhere(page, VALUE);
  await page.getByLabel('Action, with * for any text').fill('secret.*');
  await page.keyboard.press('Enter');
  await until('only secrets', async () => (await grid.getByText(/^(key|sandbox|team)\./).count()) === 0);
  await shot(page, 'audit');
  await row.click();
  await page.getByRole('dialog', { name: 'secret.delete' }).getByText('Outcome').waitFor();
  await shot(page, 'audit-row');
  await close(page);
});
