// Every page of the dashboard. A route with `nav` is in the navigation.
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
  { path: '/templates', title: 'Templates', load: () => import('./pages/templates/index'), nav: { icon: 'templates', key: 't' } },
  { path: '/templates/new/:name?', title: 'Build a template', load: () => import('./pages/templates/create') },
  { path: '/templates/:id/builds/:build', title: 'Template', load: () => import('./pages/templates/template') },
  { path: '/templates/:id', title: 'Template', load: () => import('./pages/templates/template') },
  { path: '/snapshots', title: 'Snapshots', load: () => import('./pages/snapshots'), nav: { icon: 'snapshots', key: 'n' } },
  { path: '/volumes', title: 'Volumes', load: () => import('./pages/volumes/index'), nav: { icon: 'volumes', key: 'v' } },
  { path: '/volumes/:id', title: 'Volume', load: () => import('./pages/volumes/volume') },
  { path: '/secrets', title: 'Secrets', load: () => import('./pages/secrets/index'), nav: { group: 'Access', icon: 'secrets', key: 'e' } },
  { path: '/keys', title: 'API keys', load: () => import('./pages/keys'), nav: { group: 'Access', icon: 'keys', key: 'k' } },
  { path: '/teams', title: 'Teams and limits', load: () => import('./pages/teams/index'), nav: { group: 'Access', icon: 'teams', key: 'l' } },
  { path: '/teams/:id', title: 'Team', load: () => import('./pages/teams/team'), operator: true },
  { path: '/webhooks', title: 'Webhooks', load: () => import('./pages/webhooks/index'), nav: { group: 'Connect', icon: 'webhooks', key: 'w' } },
  { path: '/webhooks/:id', title: 'Webhook', load: () => import('./pages/webhooks/webhook') },
  { path: '/tools', title: 'Tools', load: () => import('./pages/tools/index'), nav: { group: 'Connect', icon: 'tools', key: 'x' } },
  { path: '/tools/:name', title: 'Tools', load: () => import('./pages/tools/index') },
  { path: '/mcp', title: 'MCP', load: () => import('./pages/mcp'), nav: { group: 'Connect', icon: 'mcp', key: 'm' } },
  { path: '/audit', title: 'Audit', load: () => import('./pages/audit'), nav: { group: 'More', icon: 'audit', key: 'a' } },
  { path: '/settings', title: 'Help and settings', load: () => import('./pages/settings'), nav: { group: 'More', icon: 'help', key: 'h' } },
];
