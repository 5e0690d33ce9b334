// Teams and limits. An operator sees every team; others see what their own has and may have.
import { get, path } from '../../lib/api';
import { useLoad } from '../../lib/load';
import { isOperator, session } from '../../lib/session';
import { Button, Card, ErrorNote, PageHead, Spinner } from '../../ui/basics';
import { operatorOpen } from '../../ui/shell';
import { AllTeams } from './all';
import { UsageView, type Usage } from './usage';

const AGAIN_MS = 10_000;

async function ownUsage(signal: AbortSignal): Promise<Usage> {
  const id = session.value?.team.id || (await get<{ teamID: string }[]>('/teams', undefined, { signal }))[0]!.teamID;
  return get<Usage>(path`/teams/${id}/usage`, undefined, { signal });
}

function OwnTeam() {
  const { data, error, loading } = useLoad(ownUsage, [], AGAIN_MS);
  if (loading) return <Spinner label="Loading the usage" />;
  return (
    <>
      <ErrorNote error={error} />
      {data && <UsageView usage={data} />}
    </>
  );
}

export default function Teams() {
  return (
    <div class="page">
      <PageHead title={isOperator.value ? 'Teams and limits' : 'Usage and limits'} sub={isOperator.value ? undefined : session.value?.team.name}>
        {!isOperator.value && (
          <Button write icon="teams" onClick={() => (operatorOpen.value = true)}>
            Act as the operator
          </Button>
        )}
      </PageHead>
      {isOperator.value && (
        <Card title="All teams">
          <AllTeams />
        </Card>
      )}
      {isOperator.value && <h2>Your team: {session.value?.team.name}</h2>}
      <OwnTeam />
    </div>
  );
}
