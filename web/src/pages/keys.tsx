// The API keys of the team.
import { useMemo } from 'preact/hooks';
import { plural } from '../lib/format';
import { useLoad } from '../lib/load';
import { session } from '../lib/session';
import { get } from '../lib/api';
import { ErrorNote, PageHead, Spinner } from '../ui/basics';
import { KeyTable, type ApiKey } from './teams/key-table';

const AGAIN_MS = 15_000;

export default function Keys() {
  const { data, error, loading, reload } = useLoad((signal) => get<ApiKey[]>('/api-keys', undefined, { signal }), [], AGAIN_MS);
  const again = useMemo(() => () => void reload(), []);
  return (
    <div class="page fill">
      <PageHead title="API keys" sub={`${plural(data?.length ?? 0, 'key')} of the team ${session.value?.team.name ?? ''}`} />
      <ErrorNote error={error} />
      {loading ? <Spinner label="Loading the keys" /> : <KeyTable base="/api-keys" keys={data ?? []} onChange={again} fill />}
    </div>
  );
}
