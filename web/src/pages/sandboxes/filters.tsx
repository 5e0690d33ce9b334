// Which sandboxes the list shows: by state, template, metadata, and any text.
import { useMemo } from 'preact/hooks';
import type { SandboxRow } from '../../lib/sandboxes';
import { Button, SearchField } from '../../ui/basics';

export interface Filter {
  text: string;
  state: string;
  template: string;
  metadata: string;
}

export const noFilter: Filter = { text: '', state: '', template: '', metadata: '' };

/* "user=ann" asks for that value, "user" for that name; several are joined by spaces or commas. */
function hasMetadata(row: SandboxRow, wanted: string): boolean {
  return wanted
    .split(/[\s,&]+/)
    .filter(Boolean)
    .every((part) => {
      const [name, value] = part.split(/=(.*)/s);
      const own = Object.hasOwn(row.metadata, name!) ? row.metadata[name!] : undefined;
      return own !== undefined && (value === undefined || own.toLowerCase().includes(value.toLowerCase()));
    });
}

function hasText(row: SandboxRow, text: string): boolean {
  const fields = [row.id, row.template, row.templateID, row.state, row.lastError ?? '', ...Object.entries(row.metadata).flat()];
  return fields.some((field) => field.toLowerCase().includes(text));
}

export function fits(row: SandboxRow, filter: Filter): boolean {
  return (
    (filter.state === '' || row.state === filter.state) &&
    (filter.template === '' || row.template === filter.template) &&
    (filter.metadata === '' || hasMetadata(row, filter.metadata)) &&
    (filter.text.trim() === '' || hasText(row, filter.text.trim().toLowerCase()))
  );
}

const TEMPLATES_MAX = 200;

export function Filters({ filter, onChange, rows }: { filter: Filter; onChange: (next: Filter) => void; rows: ReadonlyMap<string, SandboxRow> }) {
  const templates = useMemo(() => [...new Set([...rows.values()].map((row) => row.template))].sort().slice(0, TEMPLATES_MAX), [rows]);
  const states = useMemo(() => [...new Set(['running', 'paused', ...[...rows.values()].map((row) => row.state)])], [rows]);
  const set = (part: Partial<Filter>) => onChange({ ...filter, ...part });
  const any = filter.text || filter.state || filter.template || filter.metadata;
  return (
    <div class="row wrap" role="search" aria-label="Filter the sandboxes">
      <SearchField id="sandbox-filter" label="Filter by any text" value={filter.text} onInput={(text) => set({ text })} />
      <select class="input" aria-label="State" value={filter.state} onChange={(event) => set({ state: event.currentTarget.value })}>
        <option value="">Every state</option>
        {states.map((state) => (
          <option value={state}>{state}</option>
        ))}
      </select>
      <select class="input" aria-label="Template" value={filter.template} onChange={(event) => set({ template: event.currentTarget.value })}>
        <option value="">Every template</option>
        {templates.map((name) => (
          <option value={name}>{name}</option>
        ))}
      </select>
      <div class="search">
        <input
          class="input metadata-filter"
          aria-label="Metadata, as name=value"
          placeholder="Metadata: name=value"
          spellcheck={false}
          value={filter.metadata}
          onInput={(event) => set({ metadata: event.currentTarget.value })}
        />
      </div>
      {any && (
        <Button kind="quiet" icon="close" onClick={() => onChange(noFilter)}>
          Clear
        </Button>
      )}
    </div>
  );
}
