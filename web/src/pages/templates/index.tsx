// The list of templates.
import { signal } from '@preact/signals';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { navigate } from 'wouter-preact/use-hash-location';
import { age, bytes, count, dateTime, megabytes, plural } from '../../lib/format';
import { useShortcut } from '../../lib/keys';
import { useLoad } from '../../lib/load';
import { canWrite } from '../../lib/session';
import { listTags, listTemplates, nameOf, type Template } from '../../lib/templates';
import { Badge, Button, EmptyState, ErrorNote, PageHead, SearchField, Spinner, StateBadge } from '../../ui/basics';
import { Table, type Column } from '../../ui/table';

const AGAIN_MS = 5000; // no stream tells of templates

/* The list has no tags: they are asked for the rows in view, once for each change of a template. */
const tags = signal<ReadonlyMap<string, string[]>>(new Map());
const asked = new Set<string>();
const keyOf = (row: Template) => `${row.templateID} ${row.updatedAt} ${row.buildCount}`;

async function askTags(rows: Template[]): Promise<void> {
  for (const row of rows.filter((one) => !one.isDefault && !asked.has(keyOf(one)))) {
    asked.add(keyOf(row));
    try {
      const found = await listTags(row.templateID);
      tags.value = new Map(tags.value).set(row.templateID, found.map((one) => one.tag));
    } catch {
      // deleted meanwhile: the list says so the next time
    }
  }
}

const columns: Column<Template>[] = [
  {
    id: 'name',
    header: 'Template',
    value: (row) => `${nameOf(row)} ${row.templateID}`,
    cell: (row) => <a href={`#/templates/${encodeURIComponent(row.templateID)}`}>{nameOf(row)}</a>,
    width: 'minmax(150px, 2fr)',
  },
  {
    id: 'tags',
    header: 'Tags',
    value: (row) => tags.value.get(row.templateID)?.join(' '),
    cell: (row) =>
      tags.value.get(row.templateID)?.map((tag) => (
        <>
          <span class="tag">{tag}</span>{' '}
        </>
      )),
    width: 'minmax(70px, 1fr)',
  },
  { id: 'status', header: 'State', value: (row) => row.buildStatus, cell: (row) => <StateBadge state={row.buildStatus ?? 'waiting'} />, width: '98px' },
  {
    id: 'kind',
    header: 'For',
    value: (row) => (row.isDefault ? 'built in' : row.public ? 'public' : 'the team'),
    cell: (row) => (row.isDefault ? <Badge>built in</Badge> : row.public ? <Badge tone="info">public</Badge> : <Badge>the team</Badge>),
    width: '90px',
  },
  { id: 'cpu', header: 'CPUs', value: (row) => row.cpuCount, width: '62px', align: 'right', searched: false },
  { id: 'memory', header: 'Memory', value: (row) => row.memoryMB, cell: (row) => megabytes(row.memoryMB), width: '84px', align: 'right', searched: false },
  {
    id: 'disk',
    header: 'Disk',
    value: (row) => row.diskSizeMB,
    cell: (row) => <span title={row.diskUsedBytes ? `${bytes(row.diskUsedBytes)} of its own on this machine` : undefined}>{megabytes(row.diskSizeMB)}</span>,
    width: '84px',
    align: 'right',
    searched: false,
  },
  { id: 'builds', header: 'Builds', value: (row) => row.buildCount, width: '68px', align: 'right', searched: false },
  { id: 'spawns', header: 'Starts', value: (row) => row.spawnCount, cell: (row) => <span title="Since the daemon started">{count(row.spawnCount)}</span>, width: '68px', align: 'right', searched: false },
  {
    id: 'used',
    header: 'Last used',
    value: (row) => (row.lastSpawnedAt ? -new Date(row.lastSpawnedAt).getTime() : undefined),
    cell: (row) => (row.lastSpawnedAt ? <span title={dateTime(row.lastSpawnedAt)}>{age(row.lastSpawnedAt)} ago</span> : <span class="faint">never</span>),
    width: '110px',
    align: 'right',
    searched: false,
  },
  {
    id: 'updated',
    header: 'Changed',
    value: (row) => -new Date(row.updatedAt).getTime(),
    cell: (row) => <span title={dateTime(row.updatedAt)}>{age(row.updatedAt)} ago</span>,
    width: '110px',
    align: 'right',
    searched: false,
  },
];

export default function Templates() {
  const [filter, setFilter] = useState('');
  const { data, error, loading } = useLoad(listTemplates, [], AGAIN_MS);
  const create = useMemo(() => () => navigate('/templates/new'), []);
  const search = useMemo(() => () => document.getElementById('template-filter')?.focus(), []);
  useShortcut('c', 'Create a template', create, canWrite.value);
  useShortcut('/', 'Filter the list', search);
  useEffect(() => () => asked.clear(), []); // a tag may have been moved elsewhere
  // A table draws only what changed: the rows are new when tags have come.
  const rows = useMemo(() => [...(data ?? [])], [data, tags.value]);
  const own = rows.filter((row) => !row.isDefault).length;
  return (
    <div class="page fill">
      <PageHead title="Templates" sub={`${plural(own, 'of the team', 'of the team')}, ${plural(rows.length - own, 'built in', 'built in')}`}>
        <Button write kind="primary" icon="plus" onClick={create}>
          Create from a Dockerfile
        </Button>
      </PageHead>
      <ErrorNote error={error} />
      <div class="row wrap" role="search">
        <SearchField id="template-filter" label="Filter by name or state" value={filter} onInput={setFilter} />
      </div>
      {loading ? (
        <Spinner label="Loading the templates" />
      ) : (
        <Table
          label="Templates"
          columns={columns}
          rows={rows}
          rowKey={(row) => row.templateID}
          filter={filter}
          sort={{ id: 'updated' }}
          onVisible={(shown) => void askTags(shown)}
          onOpen={(row) => navigate(`/templates/${encodeURIComponent(row.templateID)}`)}
          empty={
            <EmptyState title="No templates" line="atoll template build mine ./app">
              A template is what sandboxes start from. Build one here from a Dockerfile, or from a directory on the command line:
            </EmptyState>
          }
        />
      )}
    </div>
  );
}
