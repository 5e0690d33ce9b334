// Secrets and API shells. Values go to the daemon and never come back.
import { useState } from 'preact/hooks';
import { PageHead } from '../../ui/basics';
import { Tabs } from '../../ui/tabs';
import { Secrets } from './secrets';
import { Shells } from './shells';

export default function SecretsPage() {
  const [at, setAt] = useState('secrets');
  return (
    <div class="page fill">
      <PageHead title="Secrets" sub="Values that the daemon puts into requests on their way out. They are never shown." />
      <Tabs
        label="Kinds"
        tabs={[
          { id: 'secrets', label: 'Secrets', icon: 'secrets' },
          { id: 'shells', label: 'API shells', icon: 'network' },
        ]}
        at={at}
        onChange={setAt}
      />
      <div class="panel" role="tabpanel" aria-labelledby={`tab-${at}`}>
        {at === 'secrets' ? <Secrets /> : <Shells />}
      </div>
    </div>
  );
}
