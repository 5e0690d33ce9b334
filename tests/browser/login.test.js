// Logging in: by key, by link, what is refused, a session that has ended, the headers of the page.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { accessible, api, API, close, enter, KEY, open, shot, useBrowser, WEB } from './helpers.js';

useBrowser();

const link = async () => (await api('POST', '/dashboard/links', {})).link;

test('a page for somebody who is not logged in', async () => {
  const page = await open();
  await page.goto(WEB);
  await page.getByLabel('API key').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Log in' }).isDisabled(), true);
  assert.match(await page.locator('main').innerText(), /atoll open[\s\S]*atoll key create/);
  await accessible(page);
  await shot(page, 'login');
  await page.emulateMedia({ colorScheme: 'light' });
  await accessible(page);
  await shot(page, 'login-light');
  await close(page);
});

test('a good key leads in, and the cookie is out of reach of scripts', async () => {
  const page = await enter('/sandboxes');
  await page.getByRole('heading', { name: 'Sandboxes', level: 1 }).waitFor();
  const [cookie] = await page.context().cookies();
  assert.equal(cookie.name, 'atoll_session');
  assert.equal(cookie.httpOnly, true);
  assert.equal(cookie.sameSite, 'Strict');
  assert.equal(await page.evaluate(() => document.cookie), '');
  const stored = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
  assert.ok(!stored.includes(KEY) && !stored.includes(cookie.value), 'a secret is kept in the page');
  await page.reload();
  await page.getByRole('heading', { name: 'Sandboxes', level: 1 }).waitFor();
  await close(page);
});

test('a bad key is refused with a sentence, and the field stays', async () => {
  const page = await open();
  await page.goto(WEB);
  await page.getByLabel('API key').fill('e2b_0000000000000000000000000000000000000000');
  await page.getByRole('button', { name: 'Log in' }).click();
  const said = await page.getByRole('alert').innerText();
  assert.ok(said.length > 10 && !said.includes('{'), said);
  assert.equal(await page.getByLabel('API key').inputValue(), 'e2b_0000000000000000000000000000000000000000');
  await shot(page, 'login-refused');
  await close(page);
});

test('a link leads in once, and is in no address afterwards', async () => {
  const token = await link();
  const page = await open();
  await page.goto(`${WEB}/#login=${token}`);
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
  assert.ok(!page.url().includes(token));
  await close(page);

  const second = await open();
  await second.goto(`${WEB}/#login=${token}`);
  await second.getByLabel('API key').waitFor();
  assert.match(await second.getByRole('status').first().innerText(), /link/);
  assert.ok(!second.url().includes(token));
  await close(second);
});

test('a page of another site logs nobody in', async () => {
  const token = await link();
  const page = await open();
  const elsewhere = 'http://elsewhere.localhost/';
  await page.route(`${elsewhere}**`, (route) => route.fulfill({ contentType: 'text/html', body: `<a href="${WEB}/#login=${token}">look</a>` }));
  await page.goto(elsewhere);
  await page.getByText('look').click();
  await page.getByLabel('API key').waitFor();
  assert.match(await page.getByRole('status').first().innerText(), /Another page/);
  assert.ok(!page.url().includes(token));
  assert.deepEqual(await page.context().cookies(), []);
  await page.goto(`${WEB}/#login=${token}`); // as if pasted: the link is still good
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
  await page.context().close(); // it was at another host
});

test('a session that ended leads to the login, and back to the same page', async () => {
  const page = await enter('/sandboxes');
  await page.getByRole('heading', { name: 'Sandboxes', level: 1 }).waitFor();
  const [cookie] = await page.context().cookies();
  const csrf = await page.evaluate(async () => (await (await fetch('/dashboard/session')).json()).csrf);
  const ended = await fetch(`${API}/dashboard/session`, {
    method: 'DELETE',
    headers: { Cookie: `${cookie.name}=${cookie.value}`, 'X-Atoll-CSRF': csrf },
  });
  assert.equal(ended.ok, true);
  await page.getByRole('button', { name: 'Create sandbox' }).click();
  await page.getByLabel('API key').waitFor();
  assert.match(await page.getByRole('status').first().innerText(), /session has ended/);
  await shot(page, 'login-ended');
  await page.getByLabel('API key').fill(KEY);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { name: 'Sandboxes', level: 1 }).waitFor();
  await close(page);
});

test('logging out ends the session', async () => {
  const page = await enter('/');
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByLabel('API key').waitFor();
  await page.reload();
  await page.getByLabel('API key').waitFor();
  await close(page);
});

test('a key that may only read sees no button that would be refused', async () => {
  const made = await api('POST', '/api-keys', { name: 'reader', readOnly: true });
  const page = await enter('/sandboxes', { key: made.key });
  await page.getByText('read only').waitFor();
  await page.getByRole('grid', { name: 'Sandboxes' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Create sandbox' }).count(), 0);
  assert.equal(await page.getByLabel('Select all rows').count(), 0);
  await page.keyboard.press('c');
  assert.equal(await page.getByRole('dialog').count(), 0);
  await shot(page, 'read-only');
  await api('DELETE', `/api-keys/${made.id}`);
  await page.getByLabel('API key').waitFor(); // a session ends with its key
  await close(page);
});

test('an admin key adds the rights of the operator', async () => {
  const made = execFileSync(`${process.env.ATOLL_BUILD}/atoll`, ['admin-key', 'create', 'browser', '--data', process.env.ATOLL_DATA], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const key = /\S{20,}/.exec(made)[0];
  const page = await enter('/');
  await page.getByRole('button', { name: 'Act as the operator' }).click();
  const dialog = page.getByRole('dialog', { name: 'Act as the operator' });
  await dialog.getByLabel('Admin key').fill('no such key');
  await dialog.getByRole('button', { name: 'Add the rights' }).click();
  await dialog.getByRole('alert').waitFor();
  await accessible(page);
  await shot(page, 'operator');
  await dialog.getByLabel('Admin key').fill(key);
  await dialog.getByRole('button', { name: 'Add the rights' }).click();
  await page.locator('nav').getByText('operator', { exact: true }).waitFor();
  await close(page);
});

test('the page admits its own origin alone', async () => {
  const page = await open();
  const answer = await page.goto(WEB);
  const policy = answer.headers()['content-security-policy'];
  assert.match(policy, /default-src 'none'/);
  assert.match(policy, /script-src 'self'(;|$)/);
  assert.match(policy, /style-src 'self' 'nonce-[^']{16,}'/);
  assert.match(policy, /connect-src 'self'/);
  assert.match(policy, /frame-ancestors 'none'/);
  assert.ok(!/unsafe|\*/.test(policy), policy);
  assert.equal(answer.headers()['x-content-type-options'], 'nosniff');
  const nonce = /'nonce-([^']+)'/.exec(policy)[1];
  assert.equal(await page.locator('meta[name="csp-nonce"]').getAttribute('content'), nonce);
  const other = (await page.goto(WEB)).headers()['content-security-policy'];
  assert.notEqual(other, policy);
  await page.getByLabel('API key').waitFor();
  // What is put into the page all the same does not run: this is the test of the policy itself.
  const ran = await page.evaluate(async () => {
    const image = new Image();
    document.body.append(image);
    image.setAttribute('onerror', 'window.ran = true');
    image.src = '/no-such-picture';
    const script = document.createElement('script');
    script.textContent = 'window.ran = true';
    document.body.append(script);
    await new Promise((resolve) => setTimeout(resolve, 500));
    return window.ran === true;
  });
  assert.equal(ran, false);
  await page.context().close(); // its violations were wanted
});
