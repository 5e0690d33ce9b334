// Teams and limits. An operator sees every team; others see what their own has and may have.
import { useState } from 'preact/hooks';
import { get, path } from '../../lib/api';
import { useLoad } from '../../lib/load';
import { isOperator, login, session } from '../../lib/session';
import { Button, Card, ErrorNote, Field, PageHead, Spinner } from '../../ui/basics';
import { Dialog } from '../../ui/dialog';
import { Form } from '../../ui/form';
import { toast } from '../../ui/toast';
import { AllTeams } from './all';
import { UsageView, type Usage } from './usage';

const AGAIN_MS = 10_000;

function BecomeOperator({ onClose }: { onClose: () => void }) {
  const [key, setKey] = useState('');
  const add = async () => {
    await login({ adminKey: key.trim() });
    toast('This session has the rights of the operator.');
    onClose();
  };
  return (
    <Dialog title="Use the rights of the operator" onClose={onClose}>
      <Form submit="Use them" onSubmit={add} onCancel={onClose} disabled={key.trim() === ''}>
        <Field
          label="Admin key"
          hint={
            <>
              On the machine of the daemon, <code>atoll admin-key create NAME</code> makes one. The session then sees all teams.
            </>
          }
        >
          {(id, hint) => (
            <input id={id} type="password" aria-describedby={hint} value={key} autocomplete="off" onInput={(event) => setKey(event.currentTarget.value)} />
          )}
        </Field>
      </Form>
    </Dialog>
  );
}

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
  const [asking, setAsking] = useState(false);
  return (
    <div class="page">
      <PageHead title={isOperator.value ? 'Teams and limits' : 'Usage and limits'} sub={isOperator.value ? undefined : session.value?.team.name}>
        {!isOperator.value && (
          <Button icon="teams" onClick={() => setAsking(true)}>
            I am the operator
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
      {asking && <BecomeOperator onClose={() => setAsking(false)} />}
    </div>
  );
}
