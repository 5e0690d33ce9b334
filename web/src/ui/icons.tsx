// Small line drawings, 16 by 16, in the colour of the text around them.
const PATHS = {
  overview: 'M2 9h4V2H2zM10 14h4V7h-4zM2 14h4v-2H2zM10 4h4V2h-4z',
  sandboxes: 'M8 1.8 2.2 5v6L8 14.2 13.8 11V5zM2.2 5 8 8.2 13.8 5M8 8.2v6',
  templates: 'M8 2 1.8 5 8 8l6.2-3zM1.8 8 8 11l6.2-3M1.8 11 8 14l6.2-3',
  snapshots: 'M2 5h2.5L6 3h4l1.5 2H14v8H2zM8 11a2.2 2.2 0 1 0 0-4.4A2.2 2.2 0 0 0 8 11z',
  volumes: 'M2.5 4c0-1 2.5-1.8 5.5-1.8s5.5.8 5.5 1.8-2.5 1.8-5.5 1.8S2.5 5 2.5 4zM2.5 4v8c0 1 2.5 1.8 5.5 1.8s5.5-.8 5.5-1.8V4M2.5 8c0 1 2.5 1.8 5.5 1.8s5.5-.8 5.5-1.8',
  secrets: 'M4 7h8v6.5H4zM5.5 7V4.5a2.5 2.5 0 0 1 5 0V7',
  keys: 'M8.3 10.6a2.9 2.9 0 1 1-5.8 0 2.9 2.9 0 0 1 5.8 0zM7.4 8.6l6.1-6.1M11 5l2 2M9 7l1.5 1.5',
  teams: 'M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM1.8 13.5c0-2.5 1.9-4 4.2-4s4.2 1.5 4.2 4M10.5 7.3a2.3 2.3 0 0 0 0-4.4M12 9.9c1.4.6 2.2 1.9 2.2 3.6',
  webhooks: 'M6.8 6.2A2.8 2.8 0 1 1 9.5 8M9 5.5l2.2 4A2.7 2.7 0 1 1 9 12.5M7 5.5l-2.3 4.2a2.8 2.8 0 1 0 2 3h4',
  tools: 'M10 2.2a3.5 3.5 0 0 0-3.3 4.6L2 11.5 4.5 14l4.7-4.7A3.5 3.5 0 0 0 13.8 6l-2.3 1-2.5-2.5z',
  mcp: 'M5.5 2v4M10.5 2v4M3.5 6h9v2a4.5 4.5 0 0 1-9 0zM8 12.5V15',
  audit: 'M4 1.8h5.5L12.5 5v9.2H4zM9.5 1.8V5h3M6 8h4.5M6 10.7h4.5',
  events: 'M8.8 1.8 3.2 9H8l-.8 5.2L12.8 7H8z',
  plus: 'M8 3v10M3 8h10',
  close: 'm4 4 8 8M12 4l-8 8',
  check: 'm3 8.5 3.2 3.2L13 4.8',
  paste: 'M5.5 3h-2v10.5h9V3h-2M5.5 1.8h5v2.7h-5z',
  copy: 'M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z',
  search: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.7 10.7 14 14',
  menu: 'M2.5 4h11M2.5 8h11M2.5 12h11',
  up: 'm4 10 4-4 4 4',
  down: 'm4 6 4 4 4-4',
  right: 'm6 4 4 4-4 4',
  left: 'm10 4-4 4 4 4',
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  play: 'M5 3v10l8-5z',
  stop: 'M4 4h8v8H4z',
  trash: 'M2.5 4.5h11M6 4.5V2.5h4v2M4 4.5l.7 9h6.6l.7-9M6.7 7v4M9.3 7v4',
  fork: 'M4.5 4.5v7M4.5 8c0-2 7-1 7-3.5M4.5 4.5a1.3 1.3 0 1 0 0-2.6 1.3 1.3 0 0 0 0 2.6zM11.5 4.5a1.3 1.3 0 1 0 0-2.6 1.3 1.3 0 0 0 0 2.6zM4.5 14.1a1.3 1.3 0 1 0 0-2.6 1.3 1.3 0 0 0 0 2.6z',
  terminal: 'm3 4.5 3.5 3.5L3 11.5M8 12h5',
  file: 'M4 1.8h5.5L12.5 5v9.2H4zM9.5 1.8V5h3',
  folder: 'M1.8 3.5h4.4L8 5.3h6.2v7.9H1.8z',
  network: 'M8 14.2A6.2 6.2 0 1 0 8 1.8a6.2 6.2 0 0 0 0 12.4zM1.8 8h12.4M8 1.8c4 4 4 8.4 0 12.4-4-4-4-8.4 0-12.4z',
  chart: 'M2 13.5h12M3 10.5 6 6l3 2.5L13.5 3',
  log: 'M2.5 3.5h11M2.5 6.5h8M2.5 9.5h11M2.5 12.5h6',
  process: 'M4 4h8v8H4zM6.5 4V1.8M9.5 4V1.8M6.5 14.2V12M9.5 14.2V12M4 6.5H1.8M4 9.5H1.8M14.2 6.5H12M14.2 9.5H12',
  code: 'm5.5 4-4 4 4 4M10.5 4l4 4-4 4',
  desktop: 'M1.8 2.8h12.4v8.4H1.8zM5.5 14h5M8 11.2V14',
  clock: 'M8 14.2A6.2 6.2 0 1 0 8 1.8a6.2 6.2 0 0 0 0 12.4zM8 4.5V8l2.5 1.8',
  warn: 'M8 2 1.5 13.5h13zM8 6.5v3.2M8 11.6v.2',
  info: 'M8 14.2A6.2 6.2 0 1 0 8 1.8a6.2 6.2 0 0 0 0 12.4zM8 7.3v3.8M8 4.9v.2',
  sun: 'M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1.1 1.1M11.9 11.9 13 13M3 13l1.1-1.1M11.9 4.1 13 3',
  moon: 'M13.5 9.6A6 6 0 0 1 6.4 2.5a6 6 0 1 0 7.1 7.1z',
  system: 'M8 14.2A6.2 6.2 0 1 0 8 1.8a6.2 6.2 0 0 0 0 12.4zM8 1.8v12.4M8 5l5-1M8 8.5l6-1M8 12l5-1',
  logout: 'M6.5 2.5h-4v11h4M10.5 11l3-3-3-3M13.5 8H6',
  upload: 'M8 10.5v-8M4.8 5.5 8 2.3l3.2 3.2M2.5 10.5v3h11v-3',
  download: 'M8 2.5v8M4.8 7.5 8 10.7l3.2-3.2M2.5 10.5v3h11v-3',
  refresh: 'M13.5 3v3.5H10M2.5 13V9.5H6M13 6.5A5.4 5.4 0 0 0 3.2 5.6M3 9.5a5.4 5.4 0 0 0 9.8.9',
  edit: 'M10.5 2.8 13.2 5.5 5.5 13.2 2.3 13.7l.5-3.2z',
  external: 'M6.5 3.5h-4v10h10v-4M9 2.5h4.5V7M13.5 2.5 7.5 8.5',
  more: 'M3.5 8h.1M8 8h.1M12.5 8h.1',
  help: 'M8 14.2A6.2 6.2 0 1 0 8 1.8a6.2 6.2 0 0 0 0 12.4zM6.2 6.3a1.8 1.8 0 1 1 2.6 1.6c-.6.3-.8.7-.8 1.3M8 11.2v.2',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path
        d={PATHS[name]}
        fill="none"
        stroke="currentColor"
        stroke-width={name === 'more' ? 2.4 : 1.4}
        stroke-linecap="round"
        stroke-linejoin="round"
      />
    </svg>
  );
}
