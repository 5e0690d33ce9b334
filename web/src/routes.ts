// Every page of the dashboard, each a chunk of its own. A route with `nav` is in the navigation.
// The first path that matches is taken.
import type { ComponentType } from 'preact';
import type { IconName } from './ui/icons';

export interface Route {
  /** As wouter has it: /sandboxes/:id. The page gets the parts as `params`. */
  path: string;
  title: string;
  load: () => Promise<{ default: ComponentType<{ params: Record<string, string> }> }>;
  nav?: { group?: string; icon: IconName; key?: string };
  /** Only an operator sees it. */
  operator?: boolean;
}

export const routes: Route[] = [
  { path: '/', title: 'Overview', load: () => import('./pages/overview'), nav: { icon: 'overview', key: 'o' } },
  { path: '/sandboxes', title: 'Sandboxes', load: () => import('./pages/sandboxes/index'), nav: { icon: 'sandboxes', key: 's' } },
  { path: '/sandboxes/:id/:tab?', title: 'Sandbox', load: () => import('./pages/sandbox/index') },
];
