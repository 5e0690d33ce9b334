// Code cells in a sandbox of the code interpreter's template, which the daemon makes in the background
// (--with-templates code-interpreter-v1).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api, close, enter, sandbox, shot, until, useBrowser } from './helpers.js';

useBrowser();

const TEMPLATE = 'code-interpreter-v1';
const panel = (page) => page.getByRole('tabpanel');
const cell = (page, n) => panel(page).getByRole('region', { name: `Cell ${n}`, exact: true });
const output = (page, n) => panel(page).getByRole('region', { name: `Output of cell ${n}` });

async function write(page, n, code) {
  await page.getByRole('textbox', { name: `Code of cell ${n}` }).click();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText(code);
  await page.keyboard.press('Shift+Enter');
}

const FIGURE = `
import matplotlib.pyplot as plt
plt.plot([1, 2, 3, 4], [1, 4, 9, 16], label='squares')
plt.xlabel('n'); plt.title('Squares'); plt.show()`;

const HOSTILE = `
from IPython.display import HTML, SVG
display(HTML('<table style="color:red"><tr><td>cell</td></tr></table><img src=x onerror="window.ran=1"><script>window.ran=1</script>'
             '<iframe src="javascript:parent.ran=1"></iframe><a href="javascript:window.ran=1">link</a><form action="/"><input></form>'))
SVG('<svg xmlns="http://www.w3.org/2000/svg" width="60" height="60" onload="window.ran=1"><rect width="60" height="60" fill="teal"/></svg>')`;

const TEMPLATE_WAIT_S = 100;

async function ready() {
  for (let i = 0; i < TEMPLATE_WAIT_S; i++) {
    const found = (await api('GET', '/templates')).find((template) => template.names.includes(TEMPLATE));
    if (found?.buildStatus === 'ready') return;
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  assert.fail(`the daemon has no template ${TEMPLATE}: start it with --with-templates ${TEMPLATE}`);
}

test('cells give tables, pictures, charts, errors, and nothing that runs', async () => {
  await ready();
  const id = await sandbox({ templateID: TEMPLATE });
  const page = await enter(`/sandboxes/${id}/code`);
  await cell(page, 1).getByRole('button', { name: 'Run' }).click();
  await output(page, 1).getByRole('table').waitFor();
  assert.match(await output(page, 1).innerText(), /square/);

  await write(page, 2, FIGURE);
  await output(page, 2).getByRole('img', { name: 'A picture that the code made' }).waitFor();
  await output(page, 2).getByRole('button', { name: 'Chart' }).first().click();
  await output(page, 2).locator('canvas').waitFor();
  await shot(page, 'sandbox-code');

  await write(page, 3, 'print("to stdout")\nimport sys; print("to stderr", file=sys.stderr)\n1/0');
  await output(page, 3).getByText('ZeroDivisionError: division by zero').first().waitFor();
  assert.match(await output(page, 3).innerText(), /to stdout[\s\S]*to stderr/);

  await write(page, 4, HOSTILE);
  await output(page, 4).getByRole('table').waitFor();
  await output(page, 4).getByRole('img', { name: 'A drawing that the code made' }).waitFor();
  assert.equal(await page.evaluate(() => window.ran), undefined);
  assert.equal(await output(page, 4).locator('script, iframe, form, input, img[src="x"], [style], a[href]').count(), 0);
  await shot(page, 'sandbox-code-more');

  await write(page, 5, 'import time\nfor i in range(1000): time.sleep(0.1)');
  await cell(page, 5).getByRole('button', { name: 'Interrupt' }).click();
  await output(page, 5).getByText('Interrupted.').waitFor();

  await panel(page).getByRole('button', { name: 'New context' }).click();
  const dialog = page.getByRole('dialog', { name: 'New context' });
  await dialog.getByLabel('Language').fill('bash');
  await dialog.getByRole('button', { name: 'Make it' }).click();
  await dialog.waitFor({ state: 'detached' });
  const last = await panel(page).locator('.cell').count();
  await write(page, last, 'echo "bash has $((40 + 2))"');
  await output(page, last).getByText('bash has 42').waitFor();
  await until('javascript too', async () => (await cell(page, last).getByLabel('Runs in').locator('option').allInnerTexts()).includes('javascript'));
  await close(page);
});
