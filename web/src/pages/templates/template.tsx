// One template: what it is, how it is used, its tags and its builds with their logs.
import { useState } from 'preact/hooks';
import { navigate } from 'wouter-preact/use-hash-location';
import { del, get, patch, path } from '../../lib/api';
import { age, bytes, count, dateTime, duration, megabytes } from '../../lib/format';
import { useLoad } from '../../lib/load';
import { canWrite } from '../../lib/session';
import { isBuilding, listTags, nameOf, shortName, type Build, type Tag, type Template } from '../../lib/templates';
import { Badge, Button, Card, CopyLine, EmptyState, ErrorNote, Facts, Note, PageHead, Spinner, StateBadge } from '../../ui/basics';
import { confirm } from '../../ui/dialog';
import { Table, type Column } from '../../ui/table';
import { tableHeight } from '../../ui/table-height';
import { Tabs } from '../../ui/tabs';
import { attempt, toast } from '../../ui/toast';
import { Create } from '../sandboxes/create';
import { BuildLog } from './buildlog';
import { TagCard } from './tags';

interface Detail extends Template {
  builds?: Build[];
}

const AGAIN_MS = 4000;

const tookOf = (build: Build) =>
  build.finishedAt ? duration((new Date(build.finishedAt).getTime() - new Date(build.createdAt).getTime()) / 1000) : isBuilding(build.status) ? age(build.createdAt) : '–';

function buildColumns(tags: Tag[], current: string | undefined): Column<Build>[] {
  return [
    { id: 'state', header: 'State', value: (row) => row.status, cell: (row) => <StateBadge state={row.status} />, width: '110px' },
    {
      id: 'id',
      header: 'Build',
      value: (row) => row.buildID,
      cell: (row) => (
        <>
          <span class="mono">{row.buildID.slice(0, 8)}</span>{' '}
          {tags
            .filter((tag) => tag.buildID === row.buildID)
            .map((tag) => (
              <>
                <span class="tag">{tag.tag}</span>{' '}
              </>
            ))}
          {row.buildID === current && row.status === 'ready' && tags.length === 0 && <span class="tag">current</span>}
        </>
      ),
      width: 'minmax(170px, 2fr)',
    },
    { id: 'made', header: 'Started', value: (row) => row.createdAt, cell: (row) => <span title={dateTime(row.createdAt)}>{age(row.createdAt)} ago</span>, width: '110px', align: 'right' },
    { id: 'took', header: 'Took', value: tookOf, width: '80px', align: 'right', sortable: false },
    { id: 'cpu', header: 'CPUs', value: (row) => row.cpuCount, width: '70px', align: 'right' },
    { id: 'memory', header: 'Memory', value: (row) => row.memoryMB, cell: (row) => megabytes(row.memoryMB), width: '92px', align: 'right' },
    { id: 'size', header: 'On disk', value: (row) => row.diskUsedBytes, cell: (row) => bytes(row.diskUsedBytes), width: '92px', align: 'right' },
  ];
}

function Use({ name }: { name: string }) {
  const [language, setLanguage] = useState('python');
  const text: Record<string, string> = {
    python: `from e2b import Sandbox\n\nsandbox = Sandbox.create(${JSON.stringify(name)})\nprint(sandbox.commands.run("echo hello").stdout)`,
    javascript: `import { Sandbox } from 'e2b'\n\nconst sandbox = await Sandbox.create(${JSON.stringify(name)})\nconsole.log((await sandbox.commands.run('echo hello')).stdout)`,
    cli: `atoll run --template ${name} echo hello`,
  };
  return (
    <Card title="Use it">
      <div class="column">
        <Tabs
          label="Language"
          tabs={[
            { id: 'python', label: 'Python' },
            { id: 'javascript', label: 'JavaScript' },
            { id: 'cli', label: 'Command line' },
          ]}
          at={language}
          onChange={setLanguage}
        />
        <div role="tabpanel" aria-labelledby={`tab-${language}`}>
          <CopyLine block text={text[language]!} />
        </div>
      </div>
    </Card>
  );
}

async function remove(template: Detail) {
  await confirm({
    title: `Delete ${nameOf(template)}?`,
    text: 'The template, its tags and all its builds are deleted. Sandboxes can no longer start from it. This cannot be undone.',
    action: 'Delete',
    danger: true,
    run: async () => {
      await del(path`/templates/${template.templateID}`);
      toast(`${nameOf(template)} is deleted.`);
      navigate('/templates');
    },
  });
}

export default function TemplatePage({ params }: { params: Record<string, string> }) {
  const id = decodeURIComponent(params.id ?? '');
  const wanted = params.build ? decodeURIComponent(params.build) : undefined;
  const [starting, setStarting] = useState(false);
  const { data, error, loading, reload } = useLoad((signal) => get<Detail>(path`/templates/${id}`, undefined, { signal }), [id], AGAIN_MS);
  const own = data && !data.isDefault;
  const tags = useLoad<Tag[]>(
    (signal) => (own ? listTags(id, signal) : Promise.resolve([])),
    [id, own],
    AGAIN_MS,
  );
  if (loading) return <Spinner label="Loading the template" />;
  if (!data) {
    return (
      <div class="page">
        <PageHead title="Template" />
        <ErrorNote error={error} />
        <div>
          <a href="#/templates">All templates</a>
        </div>
      </div>
    );
  }
  const name = nameOf(data);
  const builds = data.builds ?? [];
  // A build that failed leaves the one before it in use.
  const startable = data.buildStatus === 'ready' || builds.some((build) => build.status === 'ready');
  const shown = wanted ?? builds[0]?.buildID;
  const shownBuild = builds.find((build) => build.buildID === shown);
  const again = () => {
    void reload();
    void tags.reload();
  };
  const publish = () =>
    attempt(async () => {
      await patch(path`/v2/templates/${id}`, { public: !data.public });
      await reload();
    }, data.public ? `${name} is for the team alone.` : `${name} is public: every team may use it.`);
  const cancel = (build: Build) =>
    attempt(async () => {
      await del(path`/templates/${id}/builds/${build.buildID}`);
      again();
    }, 'The build is cancelled.');

  return (
    <div class="page">
      <PageHead
        title={
          <>
            <a class="muted" href="#/templates">
              Templates
            </a>{' '}
            / {name}
          </>
        }
        sub={<StateBadge state={data.buildStatus ?? 'waiting'} />}
      >
        <Button write kind="primary" icon="play" disabled={!startable} onClick={() => setStarting(true)}>
          Start a sandbox
        </Button>
        {own && (
          <>
            <Button write icon="refresh" onClick={() => navigate(`/templates/new/${encodeURIComponent(shortName(data))}`)}>
              Build again
            </Button>
            <Button write kind="danger" icon="trash" onClick={() => void remove(data)}>
              Delete
            </Button>
          </>
        )}
      </PageHead>
      <ErrorNote error={error} />
      <div class="grid">
        <Card title="Template">
          <Facts
            of={[
              ['Id', <span class="mono">{data.templateID}</span>],
              ['Names', data.names?.length ? data.names.join(', ') : undefined],
              ['CPUs', count(data.cpuCount)],
              ['Memory', megabytes(data.memoryMB)],
              ['Disk', `${megabytes(data.diskSizeMB)}${data.diskUsedBytes ? `, ${bytes(data.diskUsedBytes)} of its own on this machine` : ''}`],
              ['Agent', data.envdVersion],
              ['Created', <span title={dateTime(data.createdAt)}>{age(data.createdAt)} ago</span>],
              ['Last used', data.lastSpawnedAt ? <span title={dateTime(data.lastSpawnedAt)}>{age(data.lastSpawnedAt)} ago</span> : 'never'],
              ['Starts', `${count(data.spawnCount)} since the daemon started`],
              [
                'For',
                data.isDefault ? (
                  <Badge>built in: every team</Badge>
                ) : canWrite.value ? (
                  <label class="check">
                    <input type="checkbox" role="switch" checked={data.public} onChange={() => void publish()} />
                    public: other teams may use it
                  </label>
                ) : data.public ? (
                  'every team'
                ) : (
                  'the team alone'
                ),
              ],
            ]}
          />
        </Card>
        <Use name={data.aliases?.[0] ?? data.templateID} />
        {own && <TagCard template={data} tags={tags.data ?? []} error={tags.error} builds={builds} onChange={again} />}
      </div>
      {own && (
        <>
          <h2>Builds</h2>
          <Table
            label="Builds"
            columns={buildColumns(tags.data ?? [], data.buildID)}
            rows={builds}
            rowKey={(row) => row.buildID}
            height={tableHeight(builds.length, 6)}
            onOpen={(row) => navigate(`/templates/${encodeURIComponent(id)}/builds/${encodeURIComponent(row.buildID)}`)}
            empty={<EmptyState title="No builds">Build it with the button above.</EmptyState>}
          />
          {shown && (
            <>
              <div class="row">
                <h2 class="grow">
                  Log of build <span class="mono">{shown.slice(0, 8)}</span>
                </h2>
                {shownBuild && isBuilding(shownBuild.status) && (
                  <Button write small kind="danger" icon="stop" onClick={() => void cancel(shownBuild)}>
                    Cancel the build
                  </Button>
                )}
              </div>
              <BuildLog template={id} build={shown} height="420px" onEnd={again} />
            </>
          )}
        </>
      )}
      {data.isDefault && <Note>A built-in template: the daemon builds it itself when it is started for the first time.</Note>}
      {starting && <Create template={data.aliases?.[0] ?? data.templateID} onClose={() => setStarting(false)} />}
    </div>
  );
}
