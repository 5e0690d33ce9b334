// Templates: built from a Dockerfile in the page with the log that comes, tagged, published, started,
// built again, deleted; ten thousand of them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api, close, enter, shot, until, useBrowser } from './helpers.js';

useBrowser();

const NAME = 'in-the-page';
const BUILT_MS = 120_000;

async function write(page, text) {
  const editor = page.getByRole('textbox', { name: 'Dockerfile' });
  await editor.click();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText(text);
}

const template = async () => (await api('GET', '/templates')).find((one) => one.aliases.includes(NAME));

test('a template is built from a Dockerfile, with its log as it comes', async () => {
  const page = await enter('/templates');
  await page.getByRole('grid', { name: 'Templates' }).getByText('base').waitFor();
  await shot(page, 'templates');
  await page.getByRole('button', { name: 'Create from a Dockerfile' }).click();
  const build = page.getByRole('button', { name: 'Build', exact: true });
  await page.getByLabel('Name').fill(NAME);
  await write(page, 'FROM template:base\nCOPY app /app\n');
  await page.getByText('line 2: COPY is not built here').waitFor();
  assert.match(await page.getByRole('alert').innerText(), /atoll template build/);
  assert.ok(await build.isDisabled());
  await shot(page, 'template-refused');
  await write(page, 'FROM template:base\nEXPOSE 80\nENV GREETING=hello\nRUN for i in 1 2 3 4 5 6; do echo "line $i of the build"; sleep 1.5; done\nRUN echo $GREETING > /greeting\n');
  await page.getByText('line 2: EXPOSE has no effect').waitFor();
  await page.getByLabel('CPUs').selectOption('1');
  await page.getByLabel('Memory').selectOption('512');
  await shot(page, 'template-create');
  await build.click();
  const log = page.getByRole('log', { name: 'Log of the build' });
  await log.getByText('line 1 of the build').waitFor({ timeout: BUILT_MS });
  // It came while the build ran: the line is here and the build is not ready.
  assert.equal((await template()).buildStatus, 'building');
  await page.locator('.log-bar').getByText('building').waitFor();
  await shot(page, 'template-building');
  await page.locator('.log-bar').getByText('ready').waitFor({ timeout: BUILT_MS });
  await log.getByText('line 6 of the build').waitFor();
  const made = await template();
  assert.equal(made.cpuCount, 1);
  assert.equal(made.memoryMB, 512);
  assert.equal(made.buildStatus, 'ready');
  await close(page);
});

test('a tag is assigned and removed', async () => {
  const page = await enter(`/templates/${(await template()).templateID}`);
  const tags = page.getByRole('list', { name: 'Tags' });
  await tags.getByText('default').waitFor();
  await page.getByLabel('New tag').fill('Not A Tag!');
  await page.getByRole('button', { name: 'Assign' }).click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('New tag').fill('v2');
  await page.getByRole('button', { name: 'Assign' }).click();
  await tags.getByText('v2').waitFor();
  const list = await api('GET', `/templates/${NAME}/tags`);
  assert.deepEqual(list.map((tag) => tag.tag).sort(), ['default', 'v2']);
  await shot(page, 'template');
  await page.getByRole('button', { name: 'Remove the tag v2' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
  await tags.getByText('v2').waitFor({ state: 'detached' });
  assert.deepEqual((await api('GET', `/templates/${NAME}/tags`)).map((tag) => tag.tag), ['default']);
  await close(page);
});

test('it is published, and a sandbox starts from it', async () => {
  const { templateID } = await template();
  const page = await enter(`/templates/${templateID}`, { colorScheme: 'light' });
  await page.getByRole('switch').click();
  await page.getByText(/is public: every team may use it/).waitFor();
  assert.equal((await template()).public, true);
  await page.getByRole('switch').click();
  await page.getByText(/is for the team alone/).waitFor();
  await until('it is private', async () => !(await template()).public);
  await page.getByRole('tab', { name: 'Command line' }).click();
  await page.getByText(`atoll run --template ${NAME} echo hello`).waitFor();
  await shot(page, 'template-light');
  await page.getByRole('button', { name: 'Start a sandbox' }).click();
  const dialog = page.getByRole('dialog', { name: 'Create a sandbox' });
  assert.equal(await dialog.getByLabel('Template').inputValue(), NAME);
  await dialog.getByRole('button', { name: 'Create' }).click();
  await dialog.waitFor({ state: 'detached' });
  const [sandbox] = await api('GET', `/v2/sandboxes?template=${templateID}`);
  await api('DELETE', `/sandboxes/${sandbox.sandboxID}`);
  await close(page);
});

test('it is built again from the same text, cancelled, and deleted', async () => {
  const { templateID } = await template();
  // The Dockerfile of a build stays in the browser that made it.
  const page = await enter('/templates/new');
  await page.getByLabel('Name').fill(NAME);
  await write(page, 'FROM template:base\nRUN echo waiting; sleep 120\n');
  await page.getByRole('button', { name: 'Build', exact: true }).click();
  await page.getByRole('log').getByText('waiting').first().waitFor({ timeout: BUILT_MS });
  await page.getByRole('button', { name: 'Cancel the build' }).click();
  await page.locator('.log-bar').getByText('error').waitFor({ timeout: BUILT_MS });
  await page.getByRole('alert').first().waitFor();
  await shot(page, 'template-failed');
  assert.equal((await api('GET', `/templates/${templateID}`)).builds.length, 2);
  await page.getByRole('button', { name: 'Build again' }).click();
  await page.getByRole('heading', { name: `Build ${NAME} again` }).waitFor();
  await page.getByText('sleep 120').waitFor();
  await write(page, 'FROM template:base\nRUN echo built once more\n');
  await page.getByRole('button', { name: 'Build again', exact: true }).click();
  await page.getByRole('log').getByText('built once more').first().waitFor({ timeout: BUILT_MS });
  await page.locator('.log-bar').getByText('ready').waitFor({ timeout: BUILT_MS });
  const { builds } = await api('GET', `/templates/${templateID}`);
  assert.deepEqual(builds.map((build) => build.status), ['ready', 'error', 'ready']);
  await shot(page, 'template-built-again');
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText(/is deleted/).waitFor();
  await page.getByRole('heading', { name: 'Templates', level: 1 }).waitFor();
  assert.equal(await template(), undefined);
  await close(page);
});

test('a template that is not there says so', async () => {
  const page = await enter('/templates/nosuchtemplate');
  assert.match(await page.getByRole('alert').innerText(), /nosuchtemplate/);
  await close(page);
});

const fake = (i) => ({
  templateID: `t${i}`,
  names: [i === 7 ? 'default/<img src=x onerror="window.ran=1">' : `default/template-${i}`],
  aliases: [`template-${i}`],
  public: i % 3 === 0,
  createdAt: '2026-01-01T00:00:00Z',
  updatedAt: new Date(Date.now() - i * 60_000).toISOString(),
  lastSpawnedAt: i % 2 ? null : '2026-01-02T00:00:00Z',
  spawnCount: i,
  cpuCount: 2,
  memoryMB: 1024,
  diskSizeMB: 10240,
  buildCount: 1,
  buildStatus: i % 11 ? 'ready' : 'error',
});

/* The list alone is made up: so many builds take a day. */
test('ten thousand templates stay usable, and a hostile name stays text', async () => {
  const page = await enter('/');
  await page.route('**/templates', (route) => route.fulfill({ json: Array.from({ length: 10_000 }, (_, i) => fake(i)) }));
  await page.goto(page.url().replace(/#.*/, '#/templates'));
  await page.getByText('10,000 rows').waitFor();
  assert.ok((await page.getByRole('grid').getByRole('row').count()) < 100);
  await page.keyboard.press('/');
  await page.keyboard.type('onerror');
  await page.getByRole('grid').getByText('<img src=x').waitFor();
  assert.equal(await page.evaluate(() => window.ran), undefined);
  await page.getByLabel('Filter by name or state').fill('');
  await page.getByRole('button', { name: 'Starts' }).click();
  await shot(page, 'templates-many');
  await close(page);
});

test('a narrow window', async () => {
  const page = await enter('/templates/new', { viewport: { width: 400, height: 800 }, colorScheme: 'light' });
  await page.getByRole('textbox', { name: 'Dockerfile' }).waitFor();
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is wider than the window');
  await shot(page, 'template-create-narrow');
  await close(page);
});
