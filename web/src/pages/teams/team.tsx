// One team, for the operator: its usage, limits and keys.
import { useMemo, useState } from 'preact/hooks';
import { get, patch, path, post } from '../../lib/api';
import { plural } from '../../lib/format';
import { fromTexts, toTexts, type Limits } from '../../lib/limits';
import { useLoad } from '../../lib/load';
import { Button, ErrorNote, PageHead, Spinner } from '../../ui/basics';
import { confirm, Dialog } from '../../ui/dialog';
import { Form } from '../../ui/form';
import { LimitFields } from '../../ui/limits';
import { toast } from '../../ui/toast';
import { KeyTable, type ApiKey } from './key-table';
import { UsageView, type Usage } from './usage';

const AGAIN_MS = 10_000;

function EditLimits({ id, name, limits, onClose, onDone }: { id: string; name: string; limits: Limits; onClose: () => void; onDone: () => void }) {
  const [texts, setTexts] = useState(toTexts(limits));
  const save = async () => {
    await patch(path`/admin/teams/${id}`, { limits: fromTexts(texts) });
    toast(`The limits of ${name} are changed.`);
    onDone();
    onClose();
  };
  return (
    <Dialog title={`Limits of ${name}`} onClose={onClose}>
      <Form submit="Change" onSubmit={save} onCancel={onClose}>
        <LimitFields value={texts} onChange={setTexts} />
      </Form>
    </Dialog>
  );
}

export default function TeamPage({ params }: { params: Record<string, string> }) {
  const id = decodeURIComponent(params.id ?? '');
  const [editing, setEditing] = useState(false);
  const usage = useLoad((signal) => get<Usage>(path`/admin/teams/${id}/usage`, undefined, { signal }), [id], AGAIN_MS);
  const keys = useLoad((signal) => get<ApiKey[]>(path`/admin/teams/${id}/api-keys`, undefined, { signal }), [id], AGAIN_MS);
  const again = useMemo(() => () => void keys.reload(), [id]);
  const name = usage.data?.name ?? id;
  const kill = () =>
    confirm({
      title: `Kill all sandboxes of ${name}?`,
      text: 'Every running sandbox of the team ends, and its files are deleted. This cannot be undone.',
      action: 'Kill them all',
      danger: true,
      run: async () => {
        const answer = await post<{ killedCount: number; failedCount: number }>(path`/admin/teams/${id}/sandboxes/kill`);
        toast(`${plural(answer.killedCount, 'sandbox', 'sandboxes')} killed${answer.failedCount ? `, ${answer.failedCount} failed` : ''}.`, answer.failedCount ? 'bad' : 'ok');
        await usage.reload();
      },
    });
  const cancel = () =>
    confirm({
      title: `Cancel all builds of ${name}?`,
      text: 'Builds that run or wait end without a result.',
      action: 'Cancel them all',
      danger: true,
      run: async () => {
        const answer = await post<{ cancelledCount: number }>(path`/admin/teams/${id}/builds/cancel`);
        toast(`${plural(answer.cancelledCount, 'build')} cancelled.`);
        await usage.reload();
      },
    });
  return (
    <div class="page">
      <PageHead
        title={
          <>
            <a class="muted" href="#/teams">
              Teams
            </a>{' '}
            / {name}
          </>
        }
      >
        <Button icon="edit" disabled={!usage.data} onClick={() => setEditing(true)}>
          Change limits
        </Button>
        <Button kind="danger" disabled={!usage.data?.now.builds} onClick={() => void cancel()}>
          Cancel its builds
        </Button>
        <Button kind="danger" icon="trash" disabled={!usage.data?.now.sandboxes} onClick={() => void kill()}>
          Kill its sandboxes
        </Button>
      </PageHead>
      <ErrorNote error={usage.error} />
      {usage.loading ? <Spinner label="Loading the team" /> : usage.data && <UsageView usage={usage.data} />}
      <h2>Keys</h2>
      <ErrorNote error={keys.error} />
      {keys.data && <KeyTable base={`/admin/teams/${encodeURIComponent(id)}/api-keys`} keys={keys.data} onChange={again} />}
      {editing && usage.data && <EditLimits id={id} name={name} limits={usage.data.limits} onClose={() => setEditing(false)} onDone={() => void usage.reload()} />}
    </div>
  );
}
