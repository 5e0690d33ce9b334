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
import type { ComponentChildren, VNode } from 'preact';
import { memo } from 'preact/compat';
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
  /** Only rows for which it is true. Keep the function the same until the filter changes (useMemo). */
  keep?: (row: T) => boolean;
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

interface Calls<T> {
  select: (index: number, on: boolean, range: boolean) => void;
  open?: (row: T) => void;
  go: (index: number) => void;
}

interface RowProps<T> {
  domId: string;
  rowKey: string;
  row: T;
  index: number;
  start: number;
  columns: Column<T>[];
  grid: string;
  at: boolean;
  /** undefined: rows cannot be selected */
  selected: boolean | undefined;
  opens: boolean;
  calls: { current: Calls<T> };
}

/* Drawn again only when it changed: scrolling draws the rows that come into view, no others. */
const TableRow = memo(function TableRow<T>(props: RowProps<T>) {
  const { row, rowKey, index, selected, calls } = props;
  const click = (event: MouseEvent) => {
    calls.current.go(index);
    const inner = event.target instanceof Element && event.target.closest('a, button, input, label');
    if (!inner && !getSelection()?.toString()) calls.current.open?.(row);
  };
  return (
    <div
      id={props.domId}
      role="row"
      aria-rowindex={index + 2}
      aria-selected={selected}
      class={`tr data ${props.opens ? 'opens' : ''} ${props.at ? 'at' : ''}`}
      style={{ gridTemplateColumns: props.grid, transform: `translateY(${props.start}px)` }}
      onClick={click}
    >
      {selected !== undefined && (
        <div class="td check-cell" role="gridcell">
          <input
            type="checkbox"
            tabIndex={-1}
            aria-label={`Select ${rowKey}`}
            checked={selected}
            onClick={(event) => calls.current.select(index, !selected, event.shiftKey)}
          />
        </div>
      )}
      {props.columns.map((column) => (
        <div key={column.id} role="gridcell" class={`td ${column.align ?? ''}`}>
          {column.cell ? column.cell(row) : column.value(row)}
        </div>
      ))}
    </div>
  );
}) as <T>(props: RowProps<T> & { key?: string }) => VNode;

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
  const text = props.filter?.trim().toLowerCase() ?? '';
  const { keep } = props;
  const wanted = useMemo(
    () => (text || keep ? (row: T) => (!keep || keep(row)) && (!text || matches(columns, row, text)) : undefined),
    [columns, text, keep],
  );
  const table = useReactTable<T>({
    data: rows,
    columns: definitions,
    state: { sorting, globalFilter: wanted },
    onSortingChange: setSorting,
    globalFilterFn: (row, _column, test: (row: T) => boolean) => test(row.original),
    // It is asked for each column until one says yes: one is enough, the test looks at whole rows.
    getColumnCanGlobalFilter: (column) => column.id === columns[0]?.id,
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
  const picked = useMemo(
    () => (selected && selected.size > 0 ? shown.reduce((n, row) => n + (selected.has(row.id) ? 1 : 0), 0) : 0),
    [shown, selected],
  );

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

  const calls = useRef<Calls<T>>({} as Calls<T>);
  calls.current = { select, open: onOpen, go: setAt };

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
              return (
                <TableRow
                  key={row.id}
                  domId={`${id}-${item.index}`}
                  rowKey={row.id}
                  row={row.original}
                  index={item.index}
                  start={item.start}
                  columns={columns}
                  grid={grid}
                  at={item.index === at}
                  selected={checks ? selected.has(row.id) : undefined}
                  opens={onOpen !== undefined}
                  calls={calls}
                />
              );
            })}
          </div>
        </div>
        {shown.length === 0 && (
          <div role="row">
            <div role="gridcell">{rows.length > 0 ? <div class="empty">No row matches the filter.</div> : props.empty}</div>
          </div>
        )}
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
