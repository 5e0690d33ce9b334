// The tree of forks and snapshots that a sandbox belongs to, drawn.
import { hierarchy, tree as layout, type HierarchyPointNode } from 'd3-hierarchy';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { navigate } from 'wouter-preact/use-hash-location';
import { get, path, sentence } from '../../lib/api';
import { onEvent } from '../../lib/events';
import { age, dateTime, plural } from '../../lib/format';
import { CopyLine, ErrorNote, Note, Spinner } from '../../ui/basics';
import type { Box } from './box';
import { shownName } from './files/tree';

interface LineageNode {
  id: string;
  kind: 'sandbox' | 'snapshot';
  name: string | null;
  state: string;
  reason: string | null;
  parentID: string | null;
  at: string;
  endedAt: string | null;
}

interface Place extends LineageNode {
  children: Place[];
}

const ACROSS_PX = 236;
const DOWN_PX = 58;
const WIDTH_PX = 196;
const HEIGHT_PX = 44;
const ASK_AFTER_MS = 400; // a fork of many is many events
const STATE_CLASS: Record<string, string> = { running: 'ok', paused: 'info', ready: 'violet', killed: 'off' };

/* Nodes without a parent on record are beginnings of their own. A circle (a snapshot that was made
 * again from its own child) is cut where it would close. */
function treeOf(nodes: LineageNode[]): Place[] {
  const places = new Map(nodes.map((node) => [node.id, { ...node, children: [] as Place[] }]));
  const roots: Place[] = [];
  const circular = (place: Place) => {
    const seen = new Set([place.id]);
    for (let up = place.parentID; up !== null && places.has(up); up = places.get(up)!.parentID) {
      if (up === place.id) return true;
      if (seen.has(up)) return false;
      seen.add(up);
    }
    return false;
  };
  for (const place of places.values()) {
    const parent = place.parentID === null ? undefined : places.get(place.parentID);
    if (!parent || circular(place)) {
      place.parentID = null;
      roots.push(place);
    } else parent.children.push(place);
  }
  for (const place of places.values()) place.children.sort((a, b) => (a.at < b.at ? -1 : 1));
  return roots;
}

type Drawn = HierarchyPointNode<Place>;

function place(nodes: LineageNode[]) {
  const roots = treeOf(nodes);
  const top = { id: '', children: roots } as unknown as Place;
  const drawn = layout<Place>().nodeSize([DOWN_PX, ACROSS_PX])(hierarchy(top, (at) => at.children));
  const all = drawn.descendants().filter((node) => node.data.id !== '');
  const highest = Math.min(0, ...all.map((node) => node.x));
  const lowest = Math.max(0, ...all.map((node) => node.x));
  const deepest = Math.max(1, ...all.map((node) => node.depth));
  const order = [...all].sort((a, b) => a.x - b.x || a.y - b.y);
  return {
    all: order,
    links: drawn.links().filter((link) => link.source.data.id !== ''),
    width: (deepest - 1) * ACROSS_PX + WIDTH_PX + 24,
    height: lowest - highest + HEIGHT_PX + 24,
    left: (node: Drawn) => (node.depth - 1) * ACROSS_PX + 12,
    top: (node: Drawn) => node.x - highest + 12,
  };
}

const describe = (node: Place) =>
  `${node.kind === 'snapshot' ? 'Snapshot' : 'Sandbox'} ${shownName(node.name ?? '')} ${node.id}, ${node.state}${node.reason ? `: ${node.reason}` : ''}, made ${dateTime(node.at)}`;

const hrefOf = (node: Place) => (node.kind === 'snapshot' ? '#/snapshots' : `#/sandboxes/${encodeURIComponent(node.id)}/family`);

function Tree({ nodes, own }: { nodes: LineageNode[]; own: string }) {
  const box = useRef<SVGSVGElement>(null);
  const drawn = useMemo(() => place(nodes), [nodes]);
  const find = (id: string) => drawn.all.find((node) => node.data.id === id);
  useEffect(() => {
    box.current?.querySelector(`[data-id="${CSS.escape(own)}"]`)?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [own, drawn]);
  /* Arrows go to the parent, the first child and the neighbours, as they are drawn. */
  const move = (event: KeyboardEvent) => {
    const at = find((event.target as Element).closest<SVGElement>('[data-id]')?.dataset.id ?? '');
    if (!at) return;
    const level = drawn.all.filter((node) => node.depth === at.depth);
    const next = {
      ArrowLeft: at.parent?.data.id ? at.parent : undefined,
      ArrowRight: at.children?.[0],
      ArrowUp: level[level.indexOf(at) - 1],
      ArrowDown: level[level.indexOf(at) + 1],
    }[event.key];
    if (!next) return;
    event.preventDefault();
    box.current?.querySelector<SVGAElement>(`[data-id="${CSS.escape(next.data.id)}"]`)?.focus();
  };
  return (
    <div class="family-scroll">
      <svg ref={box} class="family" width={drawn.width} height={drawn.height} role="group" aria-label="The family of the sandbox" onKeyDown={move}>
        {drawn.links.map((link) => {
          const x1 = drawn.left(link.source) + WIDTH_PX;
          const y1 = drawn.top(link.source) + HEIGHT_PX / 2;
          const x2 = drawn.left(link.target);
          const y2 = drawn.top(link.target) + HEIGHT_PX / 2;
          const half = (x1 + x2) / 2;
          return <path class="family-link" d={`M${x1} ${y1}C${half} ${y1} ${half} ${y2} ${x2} ${y2}`} />;
        })}
        {drawn.all.map((node) => (
          <g key={node.data.id} transform={`translate(${drawn.left(node)} ${drawn.top(node)})`}>
            <a
              href={hrefOf(node.data)}
              data-id={node.data.id}
              class={`family-node ${STATE_CLASS[node.data.state] ?? ''} ${node.data.kind} ${node.data.id === own ? 'own' : ''}`}
              aria-current={node.data.id === own ? 'true' : undefined}
              onClick={(event) => {
                event.preventDefault();
                navigate(hrefOf(node.data).slice(1));
              }}
            >
              <title>{describe(node.data)}</title>
              <rect width={WIDTH_PX} height={HEIGHT_PX} rx={node.data.kind === 'snapshot' ? HEIGHT_PX / 2 : 7} />
              <circle cx={18} cy={HEIGHT_PX / 2} r={4.5} />
              <text class="id" x={32} y={18}>
                {node.data.kind === 'snapshot' ? shownName(node.data.name ?? node.data.id).slice(0, 22) : node.data.id}
              </text>
              <text class="more" x={32} y={34}>
                {node.data.kind === 'snapshot' ? 'snapshot' : node.data.state} · {shownName(node.data.kind === 'snapshot' ? '' : (node.data.name ?? '')).slice(0, 14)}
                {node.data.kind === 'snapshot' ? '' : ' · '}
                {age(node.data.at)}
              </text>
            </a>
          </g>
        ))}
      </svg>
    </div>
  );
}

export default function FamilyTab({ box }: { box: Box }) {
  const [answer, setAnswer] = useState<{ nodes: LineageNode[]; truncated: boolean } | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let left = false;
    const ask = () =>
      get<{ nodes: LineageNode[]; truncated: boolean }>(path`/sandboxes/${box.id}/lineage`).then(
        (next) => {
          if (left) return;
          setAnswer(next);
          setError(null);
        },
        (thrown) => !left && setError(sentence(thrown)),
      );
    void ask();
    // Any sandbox may turn out to be of the family.
    const end = onEvent((event) => {
      if (!event.type.startsWith('sandbox.lifecycle.')) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        void ask();
      }, ASK_AFTER_MS);
    });
    return () => {
      left = true;
      clearTimeout(timer);
      end();
    };
  }, [box.id]);
  if (!answer) return error ? <ErrorNote error={error} /> : <Spinner label="Asking for the family" />;
  const of = (kind: string) => answer.nodes.filter((node) => node.kind === kind).length;
  return (
    <div class="scroll-panel family-panel">
      <ErrorNote error={error} />
      <div class="row wrap family-legend" aria-hidden="true">
        <span class="muted">
          {plural(of('sandbox'), 'sandbox', 'sandboxes')}, {plural(of('snapshot'), 'snapshot')}
        </span>
        <span class="grow" />
        {[
          ['ok', 'running'],
          ['info', 'paused'],
          ['off', 'killed'],
          ['violet', 'snapshot'],
        ].map(([tone, label]) => (
          <span class={`legend ${tone}`}>{label}</span>
        ))}
      </div>
      {answer.truncated && <Note tone="warn">The family is larger than what is drawn.</Note>}
      <Tree nodes={answer.nodes} own={box.id} />
      {answer.nodes.length <= 1 && (
        <div class="empty">
          <h2>No relatives yet</h2>
          <div>A fork begins with the processes and files of this sandbox. Fork it with the button above, or:</div>
          <CopyLine text={`atoll fork ${box.id}`} />
        </div>
      )}
    </div>
  );
}
