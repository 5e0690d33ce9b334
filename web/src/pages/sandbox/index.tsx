// The page of one sandbox: its head, and a tab for each way to look into it. Each tab is a chunk of
// its own.
import type { ComponentType } from 'preact';
import { lazy, Suspense } from 'preact/compat';
import { useEffect, useState } from 'preact/hooks';
import { navigate } from 'wouter-preact/use-hash-location';
import { canWrite } from '../../lib/session';
import { EmptyState, ErrorNote, Spinner } from '../../ui/basics';
import { Tabs, type Tab } from '../../ui/tabs';
import { openBox, type Box } from './box';
import { Gone, Head, Paused } from './head';
import './sandbox.css';

type Part = ComponentType<{ box: Box }>;

interface Entry extends Tab {
  part: Part;
  /** It talks to the sandbox itself, so the sandbox must run. */
  running?: boolean;
}

const part = (load: () => Promise<{ default: Part }>): Part => lazy(load) as unknown as Part;

const TABS: Entry[] = [
  { id: 'terminal', label: 'Terminal', icon: 'terminal', running: true, part: part(() => import('./terminal')) },
  { id: 'files', label: 'Files', icon: 'folder', running: true, part: part(() => import('./files')) },
  { id: 'code', label: 'Code', icon: 'code', running: true, part: part(() => import('./code')) },
  { id: 'processes', label: 'Processes', icon: 'process', running: true, part: part(() => import('./processes')) },
  { id: 'figures', label: 'Figures', icon: 'chart', part: part(() => import('./figures')) },
  { id: 'logs', label: 'Logs', icon: 'log', part: part(() => import('./logs')) },
  { id: 'events', label: 'Events', icon: 'events', part: part(() => import('./events')) },
  { id: 'ports', label: 'Ports', icon: 'external', running: true, part: part(() => import('./ports')) },
  { id: 'network', label: 'Network', icon: 'network', part: part(() => import('./network')) },
  { id: 'family', label: 'Family', icon: 'fork', part: part(() => import('./family')) },
  { id: 'desktop', label: 'Desktop', icon: 'desktop', running: true, part: part(() => import('./desktop')) },
];

/* The daemon gives a session that may only read no token of the agent. */
function NotForReaders() {
  return <EmptyState title="This session may only read">What is inside the sandbox needs a key that may change it. Log in with such a key to look there.</EmptyState>;
}

function Body({ box, at }: { box: Box; at: Entry }) {
  const state = box.state.value;
  if (state === null) return box.error.value ? <ErrorNote error={box.error.value} /> : <Spinner label="Asking for the sandbox" />;
  if (at.running && !canWrite.value) return <NotForReaders />;
  if (at.running && state === 'paused') return <Paused box={box} />;
  if (at.running && state === 'gone') return <Gone box={box} />;
  const Part = at.part;
  return (
    <Suspense fallback={<Spinner />}>
      <Part box={box} />
    </Suspense>
  );
}

function Page({ id, tab }: { id: string; tab?: string }) {
  const [opened] = useState(() => openBox(id));
  useEffect(() => opened.close, []);
  const { box } = opened;
  const shown = TABS.filter((entry) => canWrite.value || !entry.running);
  const fallback = box.state.value === 'gone' ? 'events' : canWrite.value ? 'terminal' : 'figures';
  const at = TABS.find((entry) => entry.id === (tab ?? fallback));
  useEffect(() => {
    document.title = `${at?.label ?? 'Sandbox'} · ${id} · atoll`;
  }, [at]);
  return (
    <div class="page fill sandbox-page">
      <Head box={box} />
      <Tabs
        label="Parts of the sandbox"
        tabs={shown}
        at={at?.id ?? ''}
        onChange={(next) => navigate(`/sandboxes/${encodeURIComponent(id)}/${next}`, { replace: true })}
      />
      <div class="tab-panel" role="tabpanel" aria-labelledby={`tab-${at?.id ?? ''}`}>
        {at ? <Body box={box} at={at} key={at.id} /> : <EmptyState title="There is no such tab">Choose one above.</EmptyState>}
      </div>
    </div>
  );
}

export default function Sandbox({ params }: { params: Record<string, string> }) {
  const id = decodeURIComponent(params.id ?? '');
  return <Page key={id} id={id} tab={params.tab} />;
}
