// Webhooks with a receiver, tools that are tried, lines for MCP clients, the environment.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, test } from 'node:test';
import { accessible, API, api, close, enter, sandbox, shot, until, useBrowser } from './helpers.js';

useBrowser();

/* A receiver of webhooks on this machine. It answers what `status` is at that moment. */
async function receiver() {
  const got = [];
  const self = { status: 200, got };
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (part) => (body += part));
    request.on('end', () => {
      got.push({ headers: request.headers, body: JSON.parse(body) });
      response.writeHead(self.status).end();
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  after(() => {
    server.close();
    server.closeAllConnections(); // the daemon keeps some
  });
  return Object.assign(self, { url: `http://127.0.0.1:${server.address().port}/hook` });
}

const NAME = 'hook <script>window.ran=1</script>';

test('a webhook is made, tested, delivers, delivers once more, and is deleted', async () => {
  const server = await receiver();
  const page = await enter('/webhooks');
  await page.getByRole('heading', { name: 'No webhooks' }).waitFor();
  await shot(page, 'webhooks-empty');
  await page.getByRole('button', { name: 'Create webhook' }).click();
  const dialog = page.getByRole('dialog', { name: 'Create a webhook' });
  await dialog.getByLabel('Name').fill(NAME);
  await dialog.getByLabel('Address').fill(server.url);
  await dialog.getByLabel('It was paused').uncheck();
  await dialog.getByRole('button', { name: 'Make one' }).click();
  await shot(page, 'webhook-create');
  await dialog.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('heading', { name: NAME }).waitFor();
  assert.equal(await page.evaluate(() => window.ran), undefined);
  const [hook] = await api('GET', '/events/webhooks');
  assert.ok(!hook.events.includes('sandbox.lifecycle.paused'));

  await page.getByRole('button', { name: 'Send a test' }).click();
  await page.getByText(/The test was delivered: the receiver answered 200/).waitFor();
  assert.equal(server.got.length, 1);
  server.status = 418;
  await page.getByRole('button', { name: 'Send a test' }).click();
  await page.getByText(/The test was not delivered.*418/).waitFor();
  await shot(page, 'webhook-test-failed');
  server.status = 200;

  const id = await sandbox();
  const grid = page.getByRole('grid', { name: 'Deliveries' });
  const row = grid.getByRole('row').filter({ hasText: id }).filter({ hasText: 'created' });
  await row.getByText('delivered').waitFor();
  await shot(page, 'webhook');
  await row.getByText('created').click();
  const view = page.getByRole('dialog', { name: 'Delivery' });
  await view.getByText(`"${id}"`).first().waitFor();
  await shot(page, 'webhook-delivery');
  const before = server.got.length;
  await view.getByRole('button', { name: 'Send it once more' }).click();
  await until('it came once more', () => server.got.length === before + 1);
  assert.equal(server.got.at(-1).body.sandboxId, id);
  assert.equal(server.got.at(-1).body.type, 'sandbox.lifecycle.created');
  await view.waitFor({ state: 'detached' });

  await page.getByRole('button', { name: 'Turn off' }).click();
  await page.getByText('off', { exact: true }).waitFor();
  assert.equal((await api('GET', `/events/webhooks/${hook.id}`)).enabled, false);
  await page.goto(page.url().replace(/#.*/, '#/webhooks'));
  await page.getByRole('switch').click();
  await until('it is on', async () => (await api('GET', `/events/webhooks/${hook.id}`)).enabled);
  await shot(page, 'webhooks');
  await page.getByRole('link', { name: NAME }).click();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('heading', { name: 'No webhooks' }).waitFor();
  await close(page);
});

test('a webhook that is changed elsewhere changes on its page', async () => {
  const made = { name: 'before', url: 'http://127.0.0.1:9/', events: ['sandbox.lifecycle.killed'], signatureSecret: 'x', enabled: false };
  const { id } = await api('POST', '/events/webhooks', made);
  const page = await enter(`/webhooks/${id}`);
  await page.getByRole('heading', { name: 'before' }).waitFor();
  await page.getByText('off', { exact: true }).waitFor();
  await api('PATCH', `/events/webhooks/${id}`, { name: 'after', enabled: true });
  await page.getByRole('heading', { name: 'after' }).waitFor();
  await page.getByText('enabled', { exact: true }).waitFor();
  await api('DELETE', `/events/webhooks/${id}`);
  await page.getByRole('alert').first().waitFor(); // the daemon's sentence
  await close(page);
});

test('an answer that takes longer than the next question is waited for', async () => {
  const { id } = await api('POST', '/events/webhooks', { name: 'slow', url: 'http://127.0.0.1:9/', events: ['sandbox.lifecycle.killed'], signatureSecret: 'x' });
  const page = await enter('/');
  await page.route(`**/events/webhooks/${id}`, async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 6000)); // it is asked every 4 s
    await route.continue().catch(() => {}); // the page is gone
  });
  await page.goto(page.url().replace(/#.*/, `#/webhooks/${id}`));
  await page.getByRole('heading', { name: 'slow' }).waitFor();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await close(page);
  await api('DELETE', `/events/webhooks/${id}`);
});

async function code(page, text) {
  await page.getByRole('textbox', { name: 'code', exact: true }).click();
  await page.keyboard.insertText(text);
}

test('a tool is tried: its form is its schema, and the result is shown', async () => {
  const page = await enter('/tools');
  await page.getByRole('heading', { name: 'Choose a tool' }).waitFor();
  await shot(page, 'tools');
  await page.getByRole('link', { name: 'run_code', exact: true }).click();
  const form = page.getByRole('form', { name: 'Try run_code' });
  const run = form.getByRole('button', { name: 'Run' });
  assert.ok(await run.isDisabled(), 'code is required');
  await code(page, 'print(6 * 7)\nprint("<img src=x onerror=window.ran=1>")');
  await run.click();
  const result = page.getByRole('status', { name: 'Result' });
  await result.getByText('42').waitFor();
  await result.getByText('<img src=x').waitFor();
  assert.equal(await page.evaluate(() => window.ran), undefined);
  assert.equal(await result.locator('img').count(), 0);
  await shot(page, 'tool-result');
  await page.getByRole('tab', { name: 'JSON' }).click();
  await result.getByText('"stdout"').waitFor();

  await page.getByRole('link', { name: 'list_templates', exact: true }).click();
  await page.getByRole('button', { name: 'Run' }).click();
  await result.getByRole('columnheader', { name: 'build_status' }).waitFor();
  await result.getByRole('cell', { name: 'base', exact: true }).waitFor();
  await shot(page, 'tool-table');

  const id = await sandbox();
  await page.getByRole('link', { name: 'send_sandbox_input', exact: true }).click();
  await page.getByLabel('sandbox_id').fill(id);
  await page.getByText('More inputs').click();
  await page.getByLabel('action', { exact: true }).selectOption('shell_command');
  await page.getByLabel('input', { exact: true }).fill('echo said-$((40 + 2)) $COLOUR');
  await page.getByRole('group', { name: 'envs' }).getByRole('button', { name: 'Add' }).click();
  await page.getByLabel('envs: name 1').fill('COLOUR');
  await page.getByLabel('envs: value 1').fill('teal');
  await page.getByRole('button', { name: 'Run' }).click();
  await result.getByText('said-42 teal').waitFor();
  await page.getByLabel('sandbox_id').fill('inosuchsandbox0000000');
  await page.getByRole('button', { name: 'Run' }).click();
  await result.getByRole('alert').waitFor();
  await shot(page, 'tool-refused');
  await close(page);
});

test('every tool has a form with all fields of its schema', async () => {
  const { tools } = await api('GET', '/tools');
  assert.ok(tools.length > 10);
  const page = await enter('/tools');
  for (const tool of tools) {
    await page.getByRole('navigation', { name: 'Tools' }).getByRole('link', { name: tool.name, exact: true }).click();
    const form = page.getByRole('form', { name: `Try ${tool.name}` });
    await form.waitFor();
    const more = form.locator('details:not([open]) > summary');
    if (await more.count()) await more.first().click();
    for (const field of Object.keys(tool.input_schema.properties ?? {})) {
      const name = new RegExp(`^${field}( \\*)?$`); // required ones have a star
      await form.getByLabel(name).or(form.getByRole('group', { name })).first().waitFor();
    }
    await form.getByRole('button', { name: 'Run' }).waitFor();
  }
  await accessible(page);
  await close(page);
});

test('MCP clients get lines that name this daemon', async () => {
  const page = await enter('/mcp');
  await page.getByText(`claude mcp add --transport http atoll ${API}/mcp --header "X-API-Key: YOUR_API_KEY"`).waitFor();
  await shot(page, 'mcp');
  for (const client of ['Claude Desktop', 'Cursor', 'VS Code', 'Any other']) {
    await page.getByRole('tab', { name: client }).click();
    for (const text of await page.locator('.copy-line code').allInnerTexts()) if (text.startsWith('{')) JSON.parse(text);
  }
  await page.getByLabel('Template of that sandbox').fill('node-22');
  await page.getByText(`${API}/mcp?template=node-22`).first().waitFor();
  await close(page);
});

test('the environment and the colours', async () => {
  const page = await enter('/settings');
  await page.getByText(`export E2B_API_URL='${API}'`).waitFor();
  await shot(page, 'settings');
  await page.getByLabel('light').check();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'light');
  await shot(page, 'settings-light');
  await close(page);
});

const NARROW = ['/templates', '/snapshots', '/volumes', '/secrets', '/keys', '/teams', '/webhooks', '/tools/run_code', '/mcp', '/audit', '/settings'];

test('every page fits a narrow window, has names for all it has, and shuts nobody out', async () => {
  const page = await enter('/', { viewport: { width: 390, height: 780 }, colorScheme: 'light' });
  for (const path of NARROW) {
    await page.goto(page.url().replace(/#.*/, `#${path}`));
    await page.locator('main h1').waitFor();
    await page.locator('main .waiting').waitFor({ state: 'detached' });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${path} is wider than the window`);
    const nameless = await page.evaluate(() =>
      [...document.querySelectorAll('main :is(button, input, select, textarea, a)')]
        .filter((one) => !one.innerText?.trim() && !one.ariaLabel && !one.title && !one.labels?.length && !one.placeholder)
        .map((one) => one.outerHTML),
    );
    assert.deepEqual(nameless, [], path);
    await accessible(page);
    await shot(page, `narrow${path.replaceAll('/', '-')}`);
  }
  await close(page);
});
