// A table that stays quick with 10,000 rows: only those in view are drawn. TanStack Table sorts and
// filters; TanStack Virtual says which rows are in view. It is an ARIA grid with one row at a time
// in focus: arrows, Home, End, PageUp and PageDown move, Enter opens, Space selects.
import {
  getCoreRowModel,
  getFilteredRowModel,
  getSortedRowModel,
  useReactTable,
  type ColumnDef,
  type Row,
  type SortingState,
} from '@tanstack/react-table';
import { useVirtualizer } from '@tanstack/react-virtual';
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import { count } from '../lib/format';
import { Icon } from './icons';

export interface Column<T> {
  id: string;
  header: string;
  /** What is sorted by and searched in. */
  value: (row: T) => string | number | undefined | null;
  /** What is shown; the value itself if missing. */
  cell?: (row: T) => ComponentChildren;
  /** A width in CSS grid: "120px", "minmax(160px, 2fr)". */
  width?: string;
  align?: 'right';
  sortable?: boolean;
  /** False: the filter does not look here. */
  searched?: boolean;
}

export interface TableProps<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
  /** Only rows that have this text in one of their values. */
  filter?: string;
  sort?: { id: string; desc?: boolean };
  /** With both, there is a column of check boxes. */
  selected?: ReadonlySet<string>;
  onSelect?: (next: Set<string>) => void;
  onOpen?: (row: T) => void;
  /** Told when other rows come into view, for figures that are asked for these alone. */
  onVisible?: (rows: T[]) => void;
  empty?: ComponentChildren;
  /** Beside the count of rows. */
  foot?: ComponentChildren;
  /** A fixed height in CSS; without it the table fills its (flex) parent. */
  height?: string;
}

const ROW_PX = 34;
const OVERSCAN = 12;
const PAGE_ROWS = 15;

const matches = <T,>(columns: Column<T>[], row: T, text: string): boolean =>
  columns.some((column) => column.searched !== false && String(column.value(row) ?? '').toLowerCase().includes(text));

export function Table<T>(props: TableProps<T>) {
  const { columns, rows, rowKey, selected, onSelect, onOpen } = props;
  const [sorting, setSorting] = useState<SortingState>(props.sort ? [{ id: props.sort.id, desc: props.sort.desc ?? false }] : []);
  const [at, setAt] = useState(-1);
  const scroll = useRef<HTMLDivElement>(null);
  const anchor = useRef(-1);
  const id = useId();
  const definitions = useMemo<ColumnDef<T>[]>(
    () =>
      columns.map((column) => ({
        id: column.id,
        accessorFn: (row: T) => column.value(row) ?? undefined,
        enableSorting: column.sortable !== false,
        sortUndefined: 'last' as const,
        sortingFn: 'auto' as const,
      })),
    [columns],
  );
  const table = useReactTable<T>({
    data: rows,
    columns: definitions,
    state: { sorting, globalFilter: props.filter?.trim().toLowerCase() ?? '' },
    onSortingChange: setSorting,
    globalFilterFn: (row, _column, text: string) => matches(columns, row.original, text),
    getColumnCanGlobalFilter: () => true,
    getRowId: rowKey,
    getCoreRowModel: getCoreRowModel(),
    getSortedRowModel: getSortedRowModel(),
    getFilteredRowModel: getFilteredRowModel(),
    enableSortingRemoval: false,
  });
  const shown = table.getRowModel().rows;
  const virtual = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    getItemKey: (i) => shown[i]?.id ?? i,
    scrollPaddingStart: ROW_PX, // the head stays on top of the rows
  });
  useEffect(() => {
    if (at >= shown.length) setAt(shown.length - 1);
  }, [shown.length]);

  const items = virtual.getVirtualItems();
  const inView = items.map((item) => shown[item.index]?.id).join();
  useEffect(() => {
    props.onVisible?.(items.flatMap((item) => shown[item.index]?.original ?? []));
  }, [inView]);

  const checks = selected !== undefined && onSelect !== undefined;
  const grid = (checks ? '30px ' : '') + columns.map((column) => column.width ?? 'minmax(90px, 1fr)').join(' ');
  const least = columns.reduce((sum, column) => sum + (Number.parseInt(/\d+(?=px)/.exec(column.width ?? '90px')?.[0] ?? '90', 10)), 12 + (checks ? 30 : 0));
  const picked = checks ? shown.filter((row) => selected.has(row.id)).length : 0;

  const select = (index: number, on: boolean, range: boolean) => {
    if (!checks) return;
    const next = new Set(selected);
    const from = range && anchor.current >= 0 ? Math.min(anchor.current, index) : index;
    const to = range && anchor.current >= 0 ? Math.max(anchor.current, index) : index;
    for (const row of shown.slice(from, to + 1)) on ? next.add(row.id) : next.delete(row.id);
    anchor.current = index;
    onSelect(next);
  };
  const selectAll = (on: boolean) => {
    const next = new Set(selected);
    for (const row of shown) on ? next.add(row.id) : next.delete(row.id);
    onSelect?.(next);
  };
  const go = (index: number) => {
    const next = Math.max(0, Math.min(shown.length - 1, index));
    setAt(next);
    virtual.scrollToIndex(next);
  };
  const key = (event: KeyboardEvent) => {
    if (event.target !== scroll.current || shown.length === 0) return;
    const row = shown[at];
    const all = event.key === 'a' && (event.ctrlKey || event.metaKey);
    if (event.key === 'ArrowDown') go(at + 1);
    else if (event.key === 'ArrowUp') go(at - 1);
    else if (event.key === 'Home') go(0);
    else if (event.key === 'End') go(shown.length - 1);
    else if (event.key === 'PageDown') go(at + PAGE_ROWS);
    else if (event.key === 'PageUp') go(at - PAGE_ROWS);
    else if (event.key === 'Enter' && row && onOpen) onOpen(row.original);
    else if (event.key === ' ' && row && checks) select(at, !selected.has(row.id), event.shiftKey);
    else if (all && checks) selectAll(true);
    else if (event.key === 'Escape' && checks && selected.size) onSelect(new Set());
    else return;
    event.preventDefault();
  };

  return (
    <div class="table" style={props.height ? { height: props.height, flex: 'none' } : undefined}>
      <div
        class="table-scroll"
        ref={scroll}
        role="grid"
        tabIndex={0}
        aria-label={props.label}
        aria-rowcount={shown.length + 1}
        aria-colcount={columns.length + (checks ? 1 : 0)}
        aria-multiselectable={checks || undefined}
        aria-activedescendant={at >= 0 ? `${id}-${at}` : undefined}
        onKeyDown={key}
        onFocus={(event) => event.target === scroll.current && at < 0 && shown.length > 0 && setAt(0)}
      >
        <div class="table-inner" role="presentation" style={{ minWidth: `${least}px` }}>
          <div class="tr head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: grid }}>
            {checks && (
              <div class="td check-cell" role="columnheader">
                <input
                  type="checkbox"
                  aria-label="Select all rows"
                  checked={picked > 0 && picked === shown.length}
                  ref={(box) => {
                    if (box) box.indeterminate = picked > 0 && picked < shown.length;
                  }}
                  onChange={(event) => selectAll(event.currentTarget.checked)}
                />
              </div>
            )}
            {table.getFlatHeaders().map((header, i) => {
              const column = columns[i]!;
              const sorted = header.column.getIsSorted();
              return (
                <div
                  key={header.id}
                  role="columnheader"
                  class={`td ${column.align ?? ''}`}
                  aria-sort={sorted === 'asc' ? 'ascending' : sorted === 'desc' ? 'descending' : undefined}
                >
                  {column.sortable === false ? (
                    column.header
                  ) : (
                    <button type="button" class="sort" onClick={header.column.getToggleSortingHandler()}>
                      <span class="ellipsis">{column.header}</span>
                      {sorted && <Icon name={sorted === 'asc' ? 'up' : 'down'} />}
                    </button>
                  )}
                </div>
              );
            })}
          </div>
          <div role="rowgroup" style={{ height: `${virtual.getTotalSize()}px`, position: 'relative' }}>
            {items.map((item) => {
              const row = shown[item.index] as Row<T> | undefined;
              if (!row) return null;
              const on = checks && selected.has(row.id);
              return (
                <div
                  key={row.id}
                  id={`${id}-${item.index}`}
                  role="row"
                  aria-rowindex={item.index + 2}
                  aria-selected={checks ? on : undefined}
                  class={`tr data ${onOpen ? 'opens' : ''} ${item.index === at ? 'at' : ''}`}
                  style={{ gridTemplateColumns: grid, transform: `translateY(${item.start}px)` }}
                  onClick={(event) => {
                    setAt(item.index);
                    const inner = event.target instanceof Element && event.target.closest('a, button, input, label');
                    if (!inner && onOpen && !getSelection()?.toString()) onOpen(row.original);
                  }}
                >
                  {checks && (
                    <div class="td check-cell" role="gridcell">
                      <input
                        type="checkbox"
                        tabIndex={-1}
                        aria-label={`Select ${row.id}`}
                        checked={on}
                        onClick={(event) => select(item.index, !on, event.shiftKey)}
                      />
                    </div>
                  )}
                  {columns.map((column) => (
                    <div key={column.id} role="gridcell" class={`td ${column.align ?? ''}`}>
                      {column.cell ? column.cell(row.original) : column.value(row.original)}
                    </div>
                  ))}
                </div>
              );
            })}
          </div>
        </div>
        {shown.length === 0 && (rows.length > 0 ? <div class="empty">No row matches the filter.</div> : props.empty)}
      </div>
      <div class="table-foot">
        <span role="status">
          {shown.length === rows.length ? count(rows.length) : `${count(shown.length)} of ${count(rows.length)}`}
          {rows.length === 1 ? ' row' : ' rows'}
        </span>
        {props.foot}
      </div>
    </div>
  );
}
