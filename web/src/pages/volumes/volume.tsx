// The files of a volume.
import { useMemo, useRef, useState } from 'preact/hooks';
import { bytes, dateTime, plural } from '../../lib/format';
import { useLoad } from '../../lib/load';
import { canWrite } from '../../lib/session';
import { VolumeFiles, type VolumeEntry } from '../../lib/volumes';
import { Button, EmptyState, ErrorNote, Field, Note, PageHead, SearchField, Spinner } from '../../ui/basics';
import { confirm, Dialog } from '../../ui/dialog';
import { Form } from '../../ui/form';
import { Icon } from '../../ui/icons';
import { Table, type Column } from '../../ui/table';
import { attempt, toast } from '../../ui/toast';

const AGAIN_MS = 5000; // no stream tells of the files of a volume
const TEXT_BYTES_MAX = 512 * 1024;
const join = (dir: string, name: string) => (dir === '/' ? `/${name}` : `${dir}/${name}`);
const modeText = (mode: number) =>
  [6, 3, 0]
    .map((at) => (mode >> at) & 7)
    .map((bits) => `${bits & 4 ? 'r' : '-'}${bits & 2 ? 'w' : '-'}${bits & 1 ? 'x' : '-'}`)
    .join('');

function save(blob: Blob, name: string) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([blob], { type: 'application/octet-stream' }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function Crumbs({ volume, at, onGo }: { volume: string; at: string; onGo: (dir: string) => void }) {
  const parts = at.split('/').filter(Boolean);
  return (
    <nav class="crumbs" aria-label="Directory">
      <button type="button" class="link" onClick={() => onGo('/')}>
        {volume}
      </button>
      {parts.map((part, i) => (
        <>
          <span class="faint">/</span>
          <button type="button" class="link" aria-current={i === parts.length - 1 ? 'location' : undefined} onClick={() => onGo(`/${parts.slice(0, i + 1).join('/')}`)}>
            {part}
          </button>
        </>
      ))}
    </nav>
  );
}

function columnsFor(open: (entry: VolumeEntry) => void, download: (entry: VolumeEntry) => void, remove: (entry: VolumeEntry) => void): Column<VolumeEntry>[] {
  return [
    {
      id: 'name',
      header: 'Name',
      value: (row) => `${row.type === 'directory' ? ' ' : ''}${row.name}`,
      cell: (row) => (
        <button type="button" class="link file-name" onClick={() => open(row)}>
          <Icon name={row.type === 'directory' ? 'folder' : 'file'} />
          <span class="ellipsis">
            {row.name}
            {row.target ? ` → ${row.target}` : ''}
          </span>
        </button>
      ),
      width: 'minmax(200px, 3fr)',
    },
    { id: 'size', header: 'Size', value: (row) => row.size, cell: (row) => (row.type === 'directory' ? <span class="faint">–</span> : bytes(row.size)), width: '96px', align: 'right', searched: false },
    { id: 'mode', header: 'Mode', value: (row) => row.mode, cell: (row) => <span class="mono">{modeText(row.mode)}</span>, width: '100px', searched: false },
    { id: 'owner', header: 'Owner', value: (row) => `${row.uid}:${row.gid}`, width: '96px', searched: false },
    { id: 'changed', header: 'Changed', value: (row) => row.mtime, cell: (row) => dateTime(row.mtime), width: '180px', align: 'right', searched: false },
    {
      id: 'do',
      header: '',
      value: () => '',
      cell: (row) => (
        <span class="row-actions">
          {row.type === 'file' && <Button small kind="quiet" icon="download" label={`Download ${row.name}`} onClick={() => download(row)} />}
          <Button write small kind="quiet" icon="trash" label={`Delete ${row.name}`} onClick={() => remove(row)} />
        </span>
      ),
      width: '84px',
      align: 'right',
      sortable: false,
    },
  ];
}

function NewDir({ onClose, make }: { onClose: () => void; make: (name: string) => Promise<void> }) {
  const [name, setName] = useState('');
  return (
    <Dialog title="New directory" onClose={onClose}>
      <Form
        submit="Make it"
        onCancel={onClose}
        disabled={name.trim() === '' || name.includes('/')}
        onSubmit={async () => {
          await make(name.trim());
          onClose();
        }}
      >
        <Field label="Name">{(id) => <input id={id} value={name} spellcheck={false} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />}</Field>
      </Form>
    </Dialog>
  );
}

function Browser({ files }: { files: VolumeFiles }) {
  const [at, setAt] = useState('/');
  const [filter, setFilter] = useState('');
  const [shown, setShown] = useState<{ name: string; text: string } | null>(null);
  const [making, setMaking] = useState(false);
  const [over, setOver] = useState(false);
  const [sending, setSending] = useState<string | null>(null);
  const pick = useRef<HTMLInputElement>(null);
  const { data, error, loading, reload } = useLoad((signal) => files.list(at, signal), [files, at], AGAIN_MS);

  const download = (entry: VolumeEntry) => void attempt(async () => save(await files.read(entry.path), entry.name));
  const open = (entry: VolumeEntry) => {
    if (entry.type === 'directory') {
      setFilter('');
      setAt(entry.path);
    } else if (entry.size <= TEXT_BYTES_MAX) {
      void attempt(async () => {
        const text = await (await files.read(entry.path)).text();
        if (text.includes('\0')) download(entry);
        else setShown({ name: entry.name, text });
      });
    } else download(entry);
  };
  const remove = (entry: VolumeEntry) =>
    void confirm({
      title: `Delete ${entry.name}?`,
      text: entry.type === 'directory' ? 'The directory and everything in it is deleted. This cannot be undone.' : 'This cannot be undone.',
      action: 'Delete',
      danger: true,
      run: async () => {
        await files.remove(entry.path);
        await reload();
      },
    });
  const upload = async (list: FileList | null | undefined) => {
    const all = [...(list ?? [])];
    for (const [i, file] of all.entries()) {
      setSending(`${file.name} (${i + 1} of ${all.length})`);
      if (!(await attempt(() => files.write(join(at, file.name), file)))) break;
      if (i === all.length - 1) toast(`${plural(all.length, 'file')} uploaded.`);
    }
    setSending(null);
    await reload();
  };
  const columns = useMemo(() => columnsFor(open, download, remove), [at, files]);
  return (
    <>
      <div class="row wrap">
        <Crumbs volume={files.name} at={at} onGo={setAt} />
        <span class="grow" />
        <SearchField label="Filter the directory" value={filter} onInput={setFilter} />
        <Button icon="refresh" label="Load the directory again" onClick={() => void reload()} />
        <Button write icon="folder" onClick={() => setMaking(true)}>
          New directory
        </Button>
        <Button write kind="primary" icon="upload" busy={sending !== null} onClick={() => pick.current?.click()}>
          Upload
        </Button>
        <input
          ref={pick}
          type="file"
          multiple
          class="sr-only"
          tabIndex={-1}
          aria-label="Files to upload"
          onChange={(event) => {
            const input = event.currentTarget;
            void upload(input.files).then(() => (input.value = ''));
          }}
        />
      </div>
      {sending && <div role="status">Uploading {sending} …</div>}
      <ErrorNote error={error} />
      <div
        class={`drop-zone ${over ? 'over' : ''}`}
        onDragOver={(event) => {
          if (!canWrite.value) return;
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          if (!canWrite.value) return;
          event.preventDefault();
          setOver(false);
          void upload(event.dataTransfer?.files);
        }}
      >
        {loading ? (
          <Spinner label="Loading the directory" />
        ) : (
          <Table
            label={`Files in ${at}`}
            columns={columns}
            rows={data ?? []}
            rowKey={(row) => row.path}
            filter={filter}
            sort={{ id: 'name' }}
            onOpen={open}
            empty={<EmptyState title="Nothing here">{canWrite.value ? 'Drop files here, or upload them with the button above.' : 'No file has been written here.'}</EmptyState>}
          />
        )}
      </div>
      {making && (
        <NewDir
          onClose={() => setMaking(false)}
          make={async (name) => {
            await files.makeDir(join(at, name));
            await reload();
          }}
        />
      )}
      {shown && (
        <Dialog title={shown.name} wide onClose={() => setShown(null)}>
          <pre class="json" tabIndex={0} aria-label={`Contents of ${shown.name}`}>
            {shown.text}
          </pre>
        </Dialog>
      )}
    </>
  );
}

export default function VolumePage({ params }: { params: Record<string, string> }) {
  const id = decodeURIComponent(params.id ?? '');
  const { data, error, loading } = useLoad((signal) => VolumeFiles.open(id, signal), [id]);
  return (
    <div class="page fill">
      <PageHead
        title={
          <>
            <a class="muted" href="#/volumes">
              Volumes
            </a>{' '}
            / {data?.name ?? id}
          </>
        }
      />
      <ErrorNote error={error} />
      {loading ? <Spinner label="Loading the volume" /> : data && (data.readable ? <Browser files={data} /> : <Note>This session may only read. The token for the files of a volume can also write, so it is given to other keys alone.</Note>)}
    </div>
  );
}
