// Terminals of a sandbox: typed into, reloaded, broken and connected again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api, close, enter, sandbox, shot, until, useBrowser } from './helpers.js';

useBrowser();

const HOSTILE = '<img src=x onerror="window.ran=1">';
const panel = (page) => page.getByRole('tabpanel');
const harmless = async (page) => {
  assert.equal(await page.evaluate(() => window.ran), undefined);
  assert.equal(await page.locator('main script, main iframe, main img[src="x"]').count(), 0);
};

const screen = (page) => page.locator('.terminal-screen .xterm-rows');
const shows = (page, text) => until(`the terminal shows ${text}`, async () => (await screen(page).innerText()).replace(/\s+/g, ' ').includes(text));
async function type(page, line) {
  await page.locator('.terminal-screen .xterm-helper-textarea').focus();
  await page.keyboard.type(line);
  await page.keyboard.press('Enter');
}

test('a terminal is typed into, and is still there after a reload', async () => {
  const id = await sandbox();
  const page = await enter(`/sandboxes/${id}/terminal`);
  await shows(page, '$');
  await type(page, 'echo $((6*7)) is the answer; export KEPT=yes; whoami');
  await shows(page, '42 is the answer');
  await type(page, 'stty size');
  await until('the size is the screen\'s', async () => /\b(2[0-9]|3[0-9]) 1[0-9][0-9]\b/.test(await screen(page).innerText()));
  const size = async () => (await screen(page).innerText()).match(/size (\d+) (\d+)/g)?.at(-1)?.split(' ').slice(1).map(Number);
  await type(page, 'echo size $(stty size)');
  await until('the size is told', async () => (await size()) !== undefined);
  const [rows, columns] = await size();
  await page.setViewportSize({ width: 900, height: 600 });
  await until('a smaller window is a smaller terminal', async () => {
    await type(page, 'clear; echo size $(stty size)');
    const now = await size();
    return now && now[0] < rows && now[1] < columns;
  });
  await page.setViewportSize({ width: 1280, height: 800 });
  await type(page, `printf '%s\\n' '${HOSTILE}'; ls --color=always /`);
  await shows(page, 'onerror');
  await harmless(page);
  await shot(page, 'sandbox-terminal');

  await page.reload();
  await shows(page, 'onerror');
  await harmless(page);
  await type(page, 'echo kept: $KEPT');
  await shows(page, 'kept: yes');

  await panel(page).getByRole('button', { name: 'New terminal', exact: true }).click();
  await until('two terminals', async () => (await panel(page).getByRole('tab').count()) === 2);
  await shows(page, '$');
  await type(page, 'exit 7');
  await panel(page).getByText('Ended with exit code 7').waitFor();
  await shot(page, 'sandbox-terminal-ended');
  await panel(page).getByRole('tab').first().click();
  await shows(page, 'kept: yes');
  await type(page, 'echo back at $KEPT');
  await shows(page, 'back at yes');
  await close(page);
});

test('a terminal goes on after its stream broke, and after a pause', async () => {
  const id = await sandbox();
  const page = await enter(`/sandboxes/${id}/terminal`);
  await shows(page, '$');
  await type(page, 'echo before the break');
  await shows(page, 'before the break');
  await page.context().setOffline(true);
  await page.waitForTimeout(500);
  await page.context().setOffline(false);
  await page.locator('.box-head').getByRole('button', { name: 'Pause' }).click();
  await panel(page).getByText('The sandbox is paused').waitFor();
  await panel(page).getByRole('button', { name: 'Resume' }).click();
  await page.locator('.terminal-screen').waitFor();
  await until('it is live again', async () => (await page.locator('.terminal-foot').getAttribute('data-phase')) === 'live');
  await type(page, 'echo after the break');
  await shows(page, 'after the break');
  await close(page);
});

test('the shell of a fork has no name of its parent in its tab, and its text is there after a reload', async () => {
  const id = await sandbox();
  const page = await enter(`/sandboxes/${id}/terminal`);
  await shows(page, '$');
  const [{ sandbox: copy }] = await api('POST', `/sandboxes/${id}/fork`, { count: 1, timeout: 600 });
  await page.goto(page.url().replace(/#.*/, `#/sandboxes/${copy.sandboxID}/terminal`));
  await page.getByRole('heading', { name: copy.sandboxID }).waitFor();
  await until('it is live', async () => (await page.locator('.terminal-foot').getAttribute('data-phase')) === 'live');
  await type(page, 'echo said in the $((1+1))nd');
  await shows(page, 'said in the 2nd');
  const title = await panel(page).getByRole('tab').first().innerText();
  assert.ok(title.includes('user') && !title.includes(id), title);
  await page.reload();
  await shows(page, 'said in the 2nd');
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByLabel('API key').waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0, 'the next one who logs in reads none of it');
  await api('DELETE', `/sandboxes/${copy.sandboxID}`);
  await close(page);
});

test('a terminal as root, in a directory; what is selected is copied', async () => {
  const id = await sandbox();
  const page = await enter(`/sandboxes/${id}/terminal`, { permissions: ['clipboard-read', 'clipboard-write'] });
  await shows(page, '$');
  await panel(page).getByRole('button', { name: 'New terminal as another user or in a directory' }).click();
  const dialog = page.getByRole('dialog', { name: 'New terminal' });
  await dialog.getByLabel('User').fill('root');
  await dialog.getByLabel('Directory').fill('/etc');
  await dialog.getByRole('button', { name: 'Open' }).click();
  await shows(page, '#');
  await type(page, 'echo "$(whoami) in $(pwd)"');
  await shows(page, 'root in /etc');
  await page.locator('.terminal-screen .xterm-screen').dblclick({ position: { x: 12, y: 10 } });
  await page.keyboard.press('Control+c');
  await until('something was copied', async () => (await page.evaluate(() => navigator.clipboard.readText())).length > 0);
  await page.evaluate(() => navigator.clipboard.writeText('echo pas""ted'));
  await panel(page).getByRole('button', { name: 'Paste' }).click();
  await shows(page, 'echo pas""ted');
  await page.locator('.terminal-screen .xterm-helper-textarea').press('Enter');
  await shows(page, 'pasted');
  await close(page);
});

