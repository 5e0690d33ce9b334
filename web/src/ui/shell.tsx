// What is around every page: the navigation (a drawer in a narrow window), who is logged in, the
// theme, the list of shortcuts.
import { signal } from '@preact/signals';
import type { ComponentChildren, ComponentType } from 'preact';
import { Component } from 'preact';
import { lazy, Suspense } from 'preact/compat';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { Link, matchRoute, Router, useLocation, useRouter } from 'wouter-preact';
import { navigate, useHashLocation } from 'wouter-preact/use-hash-location';
import icon from '../icon.svg';
import { sentence } from '../lib/api';
import { feed } from '../lib/events';
import { shortcut, shortcuts } from '../lib/keys';
import { isOperator, login, logout, session } from '../lib/session';
import { choice, choose, type Choice } from '../lib/theme';
import { routes, type Route } from '../routes';
import { Badge, Button, EmptyState, Field, Note, Spinner } from './basics';
import { Dialog, Dialogs } from './dialog';
import { Form } from './form';
import { Icon, type IconName } from './icons';
import { Toasts } from './toast';

type PagePart = ComponentType<{ params: Record<string, string> }>;
const loaded = new Map<Route, PagePart>();

function page(route: Route): PagePart {
  let part = loaded.get(route);
  if (!part) loaded.set(route, (part = lazy(route.load) as unknown as PagePart));
  return part;
}

/* A page that throws must not take the navigation with it. */
class Guard extends Component<{ children: ComponentChildren }, { error: string | null }> {
  state = { error: null };
  static getDerivedStateFromError(error: unknown) {
    return { error: sentence(error) };
  }
  render() {
    if (!this.state.error) return this.props.children;
    return (
      <div class="page">
        <Note tone="bad">This page failed: {this.state.error}</Note>
        <div>
          <Button icon="refresh" onClick={() => location.reload()}>
            Load it again
          </Button>
        </div>
      </div>
    );
  }
}

const visible = (route: Route) => !route.operator || isOperator.value;

function Page() {
  const [at] = useLocation();
  const { parser } = useRouter();
  const found = useMemo(() => {
    for (const route of routes) {
      const [hit, params] = matchRoute(parser, route.path, at);
      if (hit && visible(route)) return { route, params: params as Record<string, string> };
    }
    return null;
  }, [at, isOperator.value]);
  useEffect(() => {
    document.title = found ? `${found.route.title} · atoll` : 'atoll';
    document.getElementById('main')?.scrollTo(0, 0);
  }, [at]);
  if (!found) {
    return (
      <EmptyState title="There is no such page">
        <Link href="/">Go to the overview</Link>
      </EmptyState>
    );
  }
  const Part = page(found.route);
  return (
    <Guard key={found.route.path}>
      <Suspense fallback={<Spinner />}>
        <Part params={found.params} />
      </Suspense>
    </Guard>
  );
}

const THEMES: [Choice, IconName, string][] = [
  ['system', 'system', 'Colours as the system has them'],
  ['light', 'sun', 'Light colours'],
  ['dark', 'moon', 'Dark colours'],
];

export function ThemeChoice() {
  const next = (THEMES.findIndex(([name]) => name === choice.value) + 1) % THEMES.length;
  const [, look, label] = THEMES.find(([name]) => name === choice.value)!;
  return <Button kind="quiet" small icon={look} label={`${label} (click to change)`} onClick={() => choose(THEMES[next]![0])} />;
}

const FEEDS = {
  off: '',
  connecting: 'Connecting …',
  live: 'Live',
  polling: 'Asking every 3 s',
};
const FEED_MORE = {
  off: '',
  connecting: 'The stream of events is being connected.',
  live: 'Changes arrive as they happen.',
  polling: 'This daemon has no stream of events: the page asks for news every 3 seconds.',
};

function Feed() {
  if (feed.value === 'off') return null;
  return (
    <span class="feed" data-feed={feed.value} title={FEED_MORE[feed.value]} role="status">
      {FEEDS[feed.value]}
    </span>
  );
}

const helpOpen = signal(false);

function Help() {
  if (!helpOpen.value) return null;
  return (
    <Dialog title="Keyboard" onClose={() => (helpOpen.value = false)}>
      <dl class="facts">
        {shortcuts.value.map((entry) => (
          <>
            <dt>
              {entry.keys.split(' ').map((part) => (
                <>
                  <kbd>{part}</kbd>{' '}
                </>
              ))}
            </dt>
            <dd>{entry.label}</dd>
          </>
        ))}
        <dt>
          <kbd>↑</kbd> <kbd>↓</kbd>
        </dt>
        <dd>Move in a table</dd>
        <dt>
          <kbd>Enter</kbd>
        </dt>
        <dd>Open the row</dd>
        <dt>
          <kbd>Space</kbd>
        </dt>
        <dd>Select the row</dd>
      </dl>
    </Dialog>
  );
}

/** True opens the dialog that asks for an admin key. */
export const operatorOpen = signal(false);

/* The operator's rights are added to a session by an admin key, which the page does not keep. */
function Operator() {
  const [key, setKey] = useState('');
  if (!operatorOpen.value) return null;
  const close = () => {
    setKey('');
    operatorOpen.value = false;
  };
  return (
    <Dialog title="Act as the operator" onClose={close}>
      <Form
        submit="Add the rights"
        disabled={key.trim() === ''}
        onCancel={close}
        onSubmit={async () => {
          await login({ adminKey: key.trim() });
          close();
        }}
      >
        <div class="muted">The operator sees the machine, its teams, its keys and the findings of atoll doctor.</div>
        <Field label="Admin key" hint="On the daemon's machine, this makes one: atoll admin-key create NAME">
          {(id, hint) => (
            <input id={id} aria-describedby={hint} type="password" autocomplete="off" value={key} onInput={(event) => setKey(event.currentTarget.value)} />
          )}
        </Field>
      </Form>
    </Dialog>
  );
}

function Navigation({ open, onGo }: { open: boolean; onGo: () => void }) {
  const [at] = useLocation();
  const who = session.value!;
  let group: string | undefined;
  return (
    <nav class={`side ${open ? 'open' : ''}`} aria-label="Pages">
      <Link href="/" class="brand" onClick={onGo}>
        <img src={icon} alt="" />
        atoll
      </Link>
      {routes
        .filter((route) => route.nav && visible(route))
        .map((route) => {
          const head = route.nav!.group !== group ? (group = route.nav!.group) : undefined;
          const here = route.path === '/' ? at === '/' : at === route.path || at.startsWith(`${route.path}/`);
          return (
            <>
              {head && <div class="side-group">{head}</div>}
              <Link key={route.path} href={route.path} class="side-link" aria-current={here ? 'page' : undefined} onClick={onGo}>
                <Icon name={route.nav!.icon} />
                {route.title}
              </Link>
            </>
          );
        })}
      <div class="side-foot">
        <Feed />
        <div class="who">
          <div class="ellipsis" title={who.team.name}>
            <span class="faint">Team</span> {who.team.name || who.team.id}
          </div>
          <div class="ellipsis" title={who.key.name}>
            <span class="faint">Key</span> {who.key.name}
          </div>
        </div>
        <div class="row wrap">
          {who.readOnly && <Badge tone="warn">read only</Badge>}
          {who.operator && <Badge tone="info">operator</Badge>}
        </div>
        <div class="row">
          <ThemeChoice />
          <Button kind="quiet" small icon="help" label="Keyboard shortcuts" onClick={() => (helpOpen.value = true)} />
          {!who.operator && !who.readOnly && <Button kind="quiet" small icon="secrets" label="Act as the operator" onClick={() => (operatorOpen.value = true)} />}
          <span class="grow faint ellipsis">{who.version}</span>
          <Button kind="quiet" small icon="logout" label="Log out" onClick={() => void logout()} />
        </div>
      </div>
    </nav>
  );
}

export function Shell() {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const ends = routes
      .filter((route) => route.nav?.key && visible(route))
      .map((route) => shortcut(`g ${route.nav!.key}`, `Go to ${route.title.toLowerCase()}`, () => navigate(route.path)));
    ends.push(shortcut('?', 'Show the shortcuts', () => (helpOpen.value = true)));
    return () => ends.forEach((end) => end());
  }, [isOperator.value]);
  useEffect(() => {
    if (!open) return;
    const close = (event: KeyboardEvent) => event.key === 'Escape' && setOpen(false);
    window.addEventListener('keydown', close);
    return () => window.removeEventListener('keydown', close);
  }, [open]);
  return (
    <Router hook={useHashLocation}>
      <div class="shell">
        <div class="topbar">
          <Button kind="quiet" icon="menu" label="Show the pages" aria-expanded={open} onClick={() => setOpen(true)} />
          <span class="brand">atoll</span>
          <span class="grow" />
          <Feed />
        </div>
        <Navigation open={open} onGo={() => setOpen(false)} />
        <button type="button" class={`veil ${open ? 'open' : ''}`} tabIndex={-1} aria-label="Hide the pages" onClick={() => setOpen(false)} />
        <main class="main" id="main">
          <Page />
        </main>
      </div>
      <Help />
      <Operator />
      <Dialogs />
      <Toasts />
    </Router>
  );
}
