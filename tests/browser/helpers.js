// What all tests of the dashboard share: a browser, a page that is logged in, requests to the daemon
// beside it, pictures. A page fails its test when its Content-Security-Policy was broken, when it
// threw, or when it spoke to anybody but the daemon.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { chromium } from 'playwright-core';

export const API = process.env.E2B_API_URL;
export const KEY = process.env.E2B_API_KEY;
export const WEB = process.env.ATOLL_WEB_URL ?? API;
const SHOTS = process.env.ATOLL_SCREENSHOTS;
const WIDE = { width: 1280, height: 800 };

export let browser;

/** Call it once per file. */
export function useBrowser() {
  before(async () => {
    browser = await chromium.launch({
      executablePath: '/usr/bin/chromium-headless-shell',
      // As root there is no sandbox of Chromium's own. The names of ports lead to this machine.
      args: ['--no-sandbox', '--disable-dev-shm-usage', '--host-resolver-rules=MAP *.localhost 127.0.0.1'],
    });
  });
  after(async () => {
    await browser?.close();
    await killAll();
  });
}

/** A request to the daemon with the key; the parsed body, or an error with the daemon's sentence. */
export async function api(method, path, body, key = KEY) {
  const answer = await fetch(API + path, {
    method,
    headers: { 'X-API-Key': key, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

const made = [];

/** A real sandbox; it is killed at the end of the file. */
export async function sandbox(options = {}) {
  const { sandboxID } = await api('POST', '/v2/sandboxes', { templateID: 'base', timeout: 900, ...options });
  made.push(sandboxID);
  return sandboxID;
}

async function killAll() {
  await Promise.all(made.splice(0).map((id) => api('DELETE', `/sandboxes/${id}`).catch(() => {})));
}

const problems = new WeakMap();

/** A new page of a new browser profile. Options are those of Playwright's contexts. */
export async function open({ web = WEB, ...options } = {}) {
  const context = await browser.newContext({ viewport: WIDE, colorScheme: 'dark', ...options });
  const page = await context.newPage();
  const found = [];
  problems.set(page, found);
  page.on('pageerror', (error) => found.push(`the page threw: ${error.message}`));
  page.on('console', (message) => {
    if (/Content.Security.Policy/i.test(message.text())) found.push(message.text());
  });
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (/^(https?|wss?):$/.test(url.protocol) && url.host !== new URL(web).host) found.push(`a request to ${url.host}`);
  });
  page.on('dialog', (dialog) => {
    found.push(`a script opened a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return page;
}

/** Ends the page; fails if anything was wrong with it. */
export async function close(page) {
  const found = problems.get(page) ?? [];
  await page.context().close();
  assert.deepEqual(found, []);
}

/** A page that is logged in, at a path of the dashboard. `prepare` gets it before anything is loaded. */
export async function enter(path = '/', options = {}) {
  const { key = KEY, prepare, ...rest } = options;
  const page = await open(rest);
  await prepare?.(page);
  await page.goto(`${options.web ?? WEB}/#${path}`);
  if (!process.env.ATOLL_WEB_URL) {
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: 'Log in' }).click();
  }
  await page.locator('nav.side').waitFor({ state: 'attached' });
  return page;
}

/** A picture of the page as it is, to be looked at by people. */
export async function shot(page, name) {
  await page.waitForTimeout(150); // what fades in has done so
  await page.screenshot({ path: join(SHOTS, `${name}.png`) });
}

const axe = readFileSync(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

/** Fails when axe finds what shuts out people with a screen reader, a keyboard or weak eyes. */
export async function accessible(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const bad = found.violations
    .filter((one) => ['serious', 'critical'].includes(one.impact))
    .flatMap((one) => one.nodes.slice(0, 3).map((node) => `${one.id}: ${node.html.slice(0, 160)} (${node.failureSummary?.split('\n')[1]?.trim()})`));
  assert.deepEqual(bad, []);
}

/** Waits until a condition is true, at most 20 s. */
export async function until(what, condition) {
  for (let i = 0; i < 200; i++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail(`not after 20 s: ${what}`);
}
