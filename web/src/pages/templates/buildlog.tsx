// The log of a build, followed while it builds. The daemon has no stream of it: the page asks for
// the lines behind those that it has.
import { useEffect, useState } from 'preact/hooks';
import { isAbort, sentence, sleep } from '../../lib/api';
import { buildStatus, isBuilding, type BuildEntry, type BuildStatus } from '../../lib/templates';
import { ErrorNote, Note, StateBadge } from '../../ui/basics';
import { LogView } from '../../ui/log';

const ASK_MS = 700;
const PAGE_LINES = 100; // what the route gives at once

const lineOf = (entry: BuildEntry) => ({ text: entry.message, at: entry.timestamp, level: entry.level });

interface Props {
  template: string;
  build: string;
  height?: string;
  onEnd?: (status: string) => void;
}

export function BuildLog({ template, build, height, onEnd }: Props) {
  const [lines, setLines] = useState<ReturnType<typeof lineOf>[]>([]);
  const [state, setState] = useState<BuildStatus | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    setLines([]);
    setState(null);
    setError(null);
    const run = async () => {
      let offset = 0;
      let live = false;
      while (!stop.signal.aborted) {
        try {
          const now = await buildStatus(template, build, offset, { signal: stop.signal });
          offset += now.logEntries.length;
          if (now.logEntries.length) setLines((before) => [...before, ...now.logEntries.map(lineOf)]);
          setState(now);
          setError(null);
          if (now.logEntries.length === PAGE_LINES) continue;
          if (!isBuilding(now.status)) {
            if (live) onEnd?.(now.status);
            return;
          }
          live = true;
        } catch (thrown) {
          if (stop.signal.aborted || isAbort(thrown)) return;
          setError(sentence(thrown));
        }
        await sleep(ASK_MS, stop.signal);
      }
    };
    void run();
    return () => stop.abort();
  }, [template, build]);
  const live = isBuilding(state?.status);
  return (
    <div class="column build-log">
      <ErrorNote error={error} />
      {state?.reason && (
        <Note tone="bad">
          {state.reason.step ? `Step ${state.reason.step}: ` : ''}
          {state.reason.message}
        </Note>
      )}
      {state?.status === 'waiting' && state.queuePosition !== undefined && state.queuePosition > 0 && (
        <Note>Builds that come before it: {state.queuePosition}</Note>
      )}
      <LogView
        label="Log of the build"
        lines={lines}
        live={live}
        height={height}
        bar={state && <StateBadge state={state.status} />}
        empty={<div class="empty">{live || !state ? 'The build has written nothing yet.' : 'This build has no log.'}</div>}
      />
    </div>
  );
}
