// What is done to the selected sandboxes at once.
import { useState } from 'preact/hooks';
import { plural } from '../../lib/format';
import { each, type Action, type SandboxRow } from '../../lib/sandboxes';
import { Button } from '../../ui/basics';
import { confirm } from '../../ui/dialog';
import { toast } from '../../ui/toast';

const DONE: Record<Action, string> = { kill: 'killed', pause: 'paused', resume: 'resumed' };

export function Bulk({ rows, onDone }: { rows: SandboxRow[]; onDone: () => void }) {
  const [busy, setBusy] = useState<{ action: Action; done: number; of: number } | null>(null);
  const running = rows.filter((row) => row.state === 'running');
  const paused = rows.filter((row) => row.state === 'paused');

  const run = async (action: Action, targets: SandboxRow[]) => {
    setBusy({ action, done: 0, of: targets.length });
    const refused = await each(action, targets.map((row) => row.id), (done) => setBusy({ action, done, of: targets.length }));
    setBusy(null);
    const good = targets.length - refused.size;
    if (good > 0) toast(`${plural(good, 'sandbox', 'sandboxes')} ${DONE[action]}.`);
    for (const text of new Set([...refused.values()].slice(0, 3))) toast(text, 'bad');
    if (refused.size === 0) onDone();
  };
  const kill = async () => {
    const yes = await confirm({
      title: `Kill ${plural(rows.length, 'sandbox', 'sandboxes')}?`,
      text: 'What runs in them ends, and their files are deleted. This cannot be undone.',
      action: 'Kill',
      danger: true,
    });
    if (yes) await run('kill', rows);
  };
  return (
    <div class="bulk" role="toolbar" aria-label="Actions on the selected sandboxes">
      <strong class="grow" role="status">
        {busy ? `${DONE[busy.action]}: ${busy.done} of ${busy.of}` : `${plural(rows.length, 'sandbox', 'sandboxes')} selected`}
      </strong>
      <Button small icon="pause" busy={busy?.action === 'pause'} disabled={busy !== null || running.length === 0} onClick={() => run('pause', running)}>
        Pause
      </Button>
      <Button small icon="play" busy={busy?.action === 'resume'} disabled={busy !== null || paused.length === 0} onClick={() => run('resume', paused)}>
        Resume
      </Button>
      <Button small kind="danger" icon="trash" busy={busy?.action === 'kill'} disabled={busy !== null} onClick={kill}>
        Kill
      </Button>
      <Button small kind="quiet" disabled={busy !== null} onClick={onDone}>
        Clear
      </Button>
    </div>
  );
}
