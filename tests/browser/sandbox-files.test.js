// The files of a sandbox.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { close, enter, sandbox, shot, until, useBrowser } from './helpers.js';
import { read, run } from './inside.js';

useBrowser();

const HOSTILE = '<img src=x onerror="window.ran=1">';
const panel = (page) => page.getByRole('tabpanel');
const harmless = async (page) => {
  assert.equal(await page.evaluate(() => window.ran), undefined);
  assert.equal(await page.locator('main script, main iframe, main img[src="x"]').count(), 0);
};

const row = (page, name) => panel(page).getByRole('treeitem').filter({ hasText: name });

test('files are uploaded, edited, saved, renamed, downloaded and deleted', async () => {
  const id = await sandbox();
  const dir = await mkdtemp(join(tmpdir(), 'browser-'));
  await writeFile(join(dir, 'notes.py'), 'print("first")\n');
  const big = Buffer.alloc(9 * 1024 * 1024, 'x');
  await writeFile(join(dir, 'big.bin'), big);
  const page = await enter(`/sandboxes/${id}/files`);
  await row(page, '.bashrc').waitFor();
  await panel(page).locator('input[type=file]').setInputFiles([join(dir, 'notes.py'), join(dir, 'big.bin')]);
  await row(page, 'notes.py').click();
  const editor = panel(page).getByRole('textbox', { name: 'Text of /home/user/notes.py' });
  await editor.waitFor();
  await until('the large file is whole', async () => (await run(id, 'stat -c %s big.bin 2>/dev/null || true')).trim() === String(big.length));
  assert.equal((await run(id, 'ls -A | grep upload || true')).trim(), '', 'no part is left');
  await editor.click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type('print("second")');
  await panel(page).getByText('changed').first().waitFor();
  await shot(page, 'sandbox-files');
  for (const [name, want] of [
    ['The file in the sandbox', 'print("first")\n'],
    ['The text in the editor', 'print("first")\nprint("second")'],
  ]) {
    const one = page.waitForEvent('download');
    await panel(page).getByRole('button', { name: 'Download', exact: true }).click();
    await page.getByRole('dialog', { name: 'Changes are not saved' }).getByRole('button', { name }).click();
    assert.equal(await readFile(await (await one).path(), 'utf8'), want, name);
  }
  await editor.click();
  await page.keyboard.press('Control+s');
  await until('it is saved', async () => (await read(id, '/home/user/notes.py')) === 'print("first")\nprint("second")');

  const download = page.waitForEvent('download');
  await panel(page).getByRole('button', { name: 'Download', exact: true }).click();
  const got = await readFile(await (await download).path(), 'utf8');
  assert.equal(got, 'print("first")\nprint("second")');

  await run(id, 'echo changed inside > notes.py');
  await until('the watch shows the change', async () => (await editor.innerText()).includes('changed inside'));

  await panel(page).getByRole('button', { name: 'Rename notes.py' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('New path').fill('/home/user/moved/to/notes2.py');
  await dialog.getByRole('button', { name: 'Move' }).click();
  await row(page, 'moved').waitFor();
  assert.equal(await read(id, '/home/user/moved/to/notes2.py'), 'changed inside\n');

  await panel(page).getByRole('button', { name: 'New folder' }).click();
  await dialog.getByLabel(/Name, in/).fill('/home/user/fresh');
  await dialog.getByRole('button', { name: 'Create' }).click();
  await row(page, 'fresh').waitFor();
  await panel(page).getByRole('button', { name: 'New file' }).click();
  await dialog.getByLabel('Name, in /home/user/fresh').fill('empty.txt');
  await dialog.getByRole('button', { name: 'Create' }).click();
  await panel(page).getByRole('textbox', { name: 'Text of /home/user/fresh/empty.txt' }).waitFor();
  await row(page, 'big.bin').click();
  await panel(page).getByText('too large to be edited').waitFor();
  await panel(page).getByRole('button', { name: 'Delete big.bin' }).click();
  await dialog.getByRole('button', { name: 'Delete' }).click();
  await row(page, 'big.bin').waitFor({ state: 'detached' });
  assert.equal((await run(id, 'ls big.bin 2>/dev/null || true')).trim(), '');
  await close(page);
});

test('what is not saved is there when the tab is opened again, and is left only when asked', async () => {
  const id = await sandbox();
  await run(id, 'echo one > notes.txt');
  const page = await enter(`/sandboxes/${id}/files`);
  await row(page, 'notes.txt').click();
  const editor = panel(page).getByRole('textbox', { name: 'Text of /home/user/notes.txt' });
  await editor.click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type('two');
  await panel(page).getByText('changed').first().waitFor();
  await page.getByRole('tab', { name: 'Terminal', exact: true }).click();
  await page.locator('.xterm').waitFor();
  await page.locator('nav.side').getByRole('link', { name: 'Overview' }).click();
  await page.goBack();
  await page.getByRole('tab', { name: 'Files', exact: true }).click();
  await editor.waitFor();
  await until('the change is back', async () => (await editor.innerText()).includes('two'));

  await panel(page).getByRole('button', { name: 'Rename notes.txt' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('New path').fill('/home/user/moved.txt');
  await dialog.getByRole('button', { name: 'Move' }).click();
  const moved = panel(page).getByRole('textbox', { name: 'Text of /home/user/moved.txt' });
  await until('it moved with the file', async () => (await moved.innerText()).includes('two'));

  await panel(page).getByRole('button', { name: 'Close the file' }).click();
  await dialog.getByText('will be lost').waitFor();
  await dialog.getByRole('button', { name: 'Discard the changes' }).waitFor();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await panel(page).getByRole('button', { name: 'Save' }).click();
  await until('it is saved', async () => (await read(id, '/home/user/moved.txt')) === 'one\ntwo');
  await panel(page).getByRole('button', { name: 'Close the file' }).click();
  await panel(page).getByText('No file is open').waitFor();
  await close(page);
});

test('files are dropped on the tree', async () => {
  const id = await sandbox();
  const page = await enter(`/sandboxes/${id}/files`);
  await row(page, '.bashrc').waitFor();
  const transfer = await page.evaluateHandle(() => {
    const data = new DataTransfer();
    data.items.add(new File(['dropped here\n'], 'dropped.txt', { type: 'text/plain' }));
    return data;
  });
  await panel(page).getByRole('tree').dispatchEvent('drop', { dataTransfer: transfer });
  await row(page, 'dropped.txt').waitFor();
  assert.equal(await read(id, '/home/user/dropped.txt'), 'dropped here\n');
  await close(page);
});

test('hostile names and pictures run no script; bytes are shown as such', async () => {
  const id = await sandbox();
  await run(
    id,
    `mkdir -p odd && cd odd && printf 'a' > '${HOSTILE}' && printf b > $'new\\nline' && printf c > $'\\xe2\\x80\\xaegnp.exe' && head -c 64 /dev/zero > zeros.dat
     printf '<svg xmlns="http://www.w3.org/2000/svg" width="80" height="80" onload="parent.ran=1"><script>parent.ran=1</script><rect width="80" height="80" fill="teal"/></svg>' > s.svg`,
  );
  const page = await enter(`/sandboxes/${id}/files`);
  await row(page, 'odd').click();
  await row(page, 'onerror').waitFor();
  await row(page, 'new\\u{a}line').waitFor();
  await row(page, '\\u{202e}gnp.exe').waitFor();
  await row(page, 's.svg').click();
  await panel(page).locator('.picture img').waitFor();
  await shot(page, 'sandbox-files-hostile');
  await row(page, 'zeros.dat').click();
  await panel(page).getByText('00000000').waitFor();
  await row(page, 'onerror').click();
  await panel(page).getByRole('textbox').last().waitFor();
  await harmless(page);
  await close(page);
});

