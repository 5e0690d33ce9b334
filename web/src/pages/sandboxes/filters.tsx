// Which sandboxes the list shows: by state, template, metadata, and any text.
import { useMemo } from 'preact/hooks';
import type { SandboxRow } from '../../lib/sandboxes';
import { Button, SearchField } from '../../ui/basics';

export interface Filter {
  text: string;
  state: string;
  template: string; // a name, or a part of one
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

const has = (text: string, part: string) => text.toLowerCase().includes(part.toLowerCase());

/** `whole`: the filter names one of the templates, and not a part of several. */
export function fits(row: SandboxRow, filter: Filter, whole: boolean): boolean {
  return (
    (filter.state === '' || row.state === filter.state) &&
    (whole ? row.template === filter.template : has(row.template, filter.template.trim())) &&
    (filter.metadata === '' || hasMetadata(row, filter.metadata)) &&
    (filter.text.trim() === '' || hasText(row, filter.text.trim().toLowerCase()))
  );
}

const OFFERED_MAX = 200; // more than anybody reads; the next letter brings others

export function Filters({ filter, onChange, rows }: { filter: Filter; onChange: (next: Filter) => void; rows: ReadonlyMap<string, SandboxRow> }) {
  const templates = useMemo(() => [...new Set([...rows.values()].map((row) => row.template))].sort(), [rows]);
  const offered = useMemo(() => templates.filter((name) => has(name, filter.template)).slice(0, OFFERED_MAX), [templates, filter.template]);
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
      <div class="search">
        <input
          class="input plain-filter"
          aria-label="Template"
          placeholder="Every template"
          list="sandbox-filter-templates"
          autocomplete="off"
          spellcheck={false}
          value={filter.template}
          onInput={(event) => set({ template: event.currentTarget.value })}
        />
        <datalist id="sandbox-filter-templates">
          {offered.map((name) => (
            <option value={name} />
          ))}
        </datalist>
      </div>
      <div class="search">
        <input
          class="input plain-filter"
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
