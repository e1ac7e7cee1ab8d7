// A grid that renders the rows in sight alone. Arrow keys, Page Up, Page Down, Home and End move the
// active row, Enter opens it; screen readers get the number of all rows.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { go } from "../route";

export const ROW_HEIGHT = 34;
const OVERSCAN = 8;

export interface GridColumn {
  title: string;
  /** A width of CSS, as in grid-template-columns. */
  width: string;
  hint?: string;
}

export function VirtualGrid<T>({
  label,
  columns,
  items,
  keyOf,
  cells,
  hrefOf,
  linkColumn,
  rowClass,
  sortedBy,
  onSort,
}: {
  label: string;
  columns: GridColumn[];
  items: T[];
  keyOf: (item: T) => string;
  cells: (item: T) => ComponentChildren[];
  /** The place that a row opens. */
  hrefOf: (item: T) => string;
  /** The column whose cells are links, for those who open them in another tab. */
  linkColumn: number;
  rowClass?: (item: T) => string;
  sortedBy?: { column: number; isDescending: boolean } | null;
  onSort?: (column: number) => void;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const [active, setActive] = useState(0);

  useEffect(() => {
    const element = scroller.current!;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const last = items.length - 1;
  const current = Math.min(active, Math.max(last, 0));
  const first = Math.max(0, Math.floor(top / ROW_HEIGHT) - OVERSCAN);
  const end = Math.min(items.length, Math.ceil((top + height) / ROW_HEIGHT) + OVERSCAN);
  const visible = items.slice(first, end);
  const template = columns.map((column) => column.width).join(" ");

  const focusRow = (index: number) => {
    const element = scroller.current!;
    const offset = index * ROW_HEIGHT;
    if (offset < element.scrollTop) element.scrollTop = offset;
    else if (offset + 2 * ROW_HEIGHT > element.scrollTop + element.clientHeight) {
      element.scrollTop = offset + 2 * ROW_HEIGHT - element.clientHeight;
    }
    setTop(element.scrollTop);
    setActive(index);
    requestAnimationFrame(() =>
      element.querySelector<HTMLElement>(`[aria-rowindex="${index + 2}"]`)?.focus({ preventScroll: true }),
    );
  };

  const move = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(height / ROW_HEIGHT) - 2);
    const targets: Record<string, number> = {
      ArrowDown: current + 1,
      ArrowUp: current - 1,
      PageDown: current + page,
      PageUp: current - page,
      Home: 0,
      End: last,
    };
    const target = targets[event.key];
    if (target === undefined || items.length === 0) return;
    event.preventDefault();
    focusRow(Math.min(Math.max(target, 0), last));
  };

  return (
    <div
      class="grid"
      role="grid"
      aria-label={label}
      aria-rowcount={items.length + 1}
      aria-colcount={columns.length}
      ref={scroller}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onKeyDown={move}
    >
      <div role="rowgroup" class="grid-head">
        <div role="row" aria-rowindex={1} class="grid-row" style={{ gridTemplateColumns: template }}>
          {columns.map((column, index) => {
            const isSorted = sortedBy?.column === index;
            const order = isSorted ? (sortedBy!.isDescending ? "descending" : "ascending") : "none";
            return (
              <div role="columnheader" key={column.title} aria-sort={order} title={column.hint}>
                {onSort ? (
                  <button type="button" onClick={() => onSort(index)}>
                    {column.title}
                    <span aria-hidden="true">{isSorted ? (sortedBy!.isDescending ? " ↓" : " ↑") : ""}</span>
                  </button>
                ) : (
                  column.title
                )}
              </div>
            );
          })}
        </div>
      </div>
      <div role="rowgroup" class="grid-body" style={{ height: `${items.length * ROW_HEIGHT}px` }}>
        <div style={{ transform: `translateY(${first * ROW_HEIGHT}px)` }} role="presentation">
          {visible.map((item, offset) => {
            const index = first + offset;
            return (
              <div
                key={keyOf(item)}
                role="row"
                aria-rowindex={index + 2}
                class={`grid-row item ${rowClass?.(item) ?? ""}`}
                style={{ gridTemplateColumns: template }}
                tabIndex={index === current ? 0 : -1}
                onFocus={() => setActive(index)}
                onClick={() => go(hrefOf(item))}
                onKeyDown={(event) => {
                  if (event.key === "Enter") go(hrefOf(item));
                }}
              >
                {cells(item).map((cell, column) => (
                  <div role="gridcell" key={columns[column]?.title}>
                    {column === linkColumn ? (
                      <a href={hrefOf(item)} tabIndex={-1}>
                        {cell}
                      </a>
                    ) : (
                      cell
                    )}
                  </div>
                ))}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}
