// The objects of a kind as a table with the server's columns, live, with filters.
import { useEffect, useMemo, useState } from "preact/hooks";
import { request, type Tree } from "../api/client";
import { findKind, kinds, type Kind, pathOf } from "../api/discovery";
import { cellText, type Column, LiveTable, type Row } from "../api/live_table";
import { hasFeature } from "../api/session";
import { age } from "../model/ages";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { StatusText } from "../parts/status_text";
import { type GridColumn, VirtualGrid } from "../parts/virtual_grid";
import { at } from "../recording";
import { hrefOf, objectHref, replaceQuery, route } from "../route";

const NUMBER = /^-?\d+(\.\d+)?/;
const SAMPLE = 200;

export function TableView({ group, resource }: { group: string; resource: string }) {
  const kind = findKind(group, resource);
  if (!kind) {
    if (kinds.value.length === 0) return <Loading what="kinds" />;
    return <Empty title={`The server has no ${resource}${group && ` of ${group}`}.`} />;
  }
  return <TableOfKind key={`${group}/${resource}`} kind={kind} />;
}

function TableOfKind({ kind }: { kind: Kind }) {
  const query = route.value.query;
  const namespace = query.get("namespace") ?? "";
  const labels = query.get("labels") ?? "";
  const fields = query.get("fields") ?? "";
  const revision = at.value;
  const [table, setTable] = useState<LiveTable | null>(null);
  useEffect(() => {
    const live = new LiveTable(kind, {
      namespace: kind.namespaced ? namespace : "",
      labelSelector: labels,
      fieldSelector: fields,
      at: revision,
    });
    setTable(live);
    return () => live.stop();
  }, [kind, namespace, labels, fields, revision]);
  const [text, setText] = useState("");
  const [isWide, setWide] = useState(false);
  const filter = (changes: Record<string, string>) =>
    replaceQuery({ namespace, labels, fields, ...changes });

  return (
    <section class="view" aria-labelledby="view-title">
      <header class="view-head">
        <h1 id="view-title">{kind.kind}</h1>
        <span class="hint">{kind.group ? `${kind.group}/${kind.version}` : kind.version}</span>
        {table && <LiveState table={table} />}
        <span class="spring" />
        {kind.verbs.includes("create") && revision === null && (
          <a class="button" href={hrefOf(["new", kind.group || "-", kind.resource], { namespace })}>
            New {kind.kind}
          </a>
        )}
      </header>
      <div class="filters" role="search" aria-label="Filters">
        {kind.namespaced && (
          <NamespaceSelect value={namespace} onChange={(value) => filter({ namespace: value })} />
        )}
        <Filter label="Labels" placeholder="app=web,tier!=test" value={labels} onApply={(value) => filter({ labels: value })} />
        <Filter label="Fields" placeholder="metadata.name=web" value={fields} onApply={(value) => filter({ fields: value })} />
        <label class="filter">
          <span>Text</span>
          <input
            type="search"
            placeholder="in any column"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <label class="check">
          <input type="checkbox" checked={isWide} onChange={(event) => setWide(event.currentTarget.checked)} /> All columns
        </label>
      </div>
      {table && <Rows kind={kind} table={table} text={text} isWide={isWide} showsNamespace={kind.namespaced && !namespace} />}
    </section>
  );
}

function LiveState({ table }: { table: LiveTable }) {
  const isLive = table.isLive.value;
  const text = at.value !== null ? "recorded" : isLive ? "live" : "not connected";
  return (
    <span class={`live ${isLive ? "on" : ""}`} role="status">
      {text}
    </span>
  );
}

function Rows({
  kind,
  table,
  text,
  isWide,
  showsNamespace,
}: {
  kind: Kind;
  table: LiveTable;
  text: string;
  isWide: boolean;
  showsNamespace: boolean;
}) {
  const [sorting, setSorting] = useState<{ column: number; isDescending: boolean } | null>(null);
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), 10_000);
    return () => clearInterval(timer);
  }, []);
  const shown = useMemo(
    () => shownColumns(table.columns.value, isWide, showsNamespace),
    [table.columns.value, isWide, showsNamespace],
  );
  const rows = useMemo(() => {
    const word = text.trim().toLowerCase();
    const matches = word
      ? table.rows.value.filter((row) => `${row.key} ${row.cells.map(cellText).join(" ")}`.toLowerCase().includes(word))
      : table.rows.value;
    return sorting ? sorted(matches, shown[sorting.column]!, sorting.isDescending) : matches;
  }, [table.rows.value, text, sorting, shown]);

  if (table.error.value && table.rows.value.length === 0) return <ErrorBox error={table.error.value} />;
  if (table.isLoading.value) return <Loading what={kind.resource} />;
  if (table.rows.value.length === 0) {
    return <Empty title={`No ${kind.resource} here.`}>Objects appear as soon as someone creates them.</Empty>;
  }
  return (
    <>
      {table.error.value && <ErrorBox error={table.error.value} title="This table is not up to date" />}
      <VirtualGrid
        label={`${kind.kind} objects`}
        columns={widths(shown, table.rows.value)}
        items={rows}
        keyOf={(row) => row.key}
        linkColumn={Math.max(0, shown.findIndex((column) => column.title === "Name"))}
        hrefOf={(row) => objectHref(kind, row.meta.namespace, row.meta.name)}
        rowClass={(row) => (row.meta.deletionTimestamp ? "deleting" : Date.now() - row.changed < 1500 ? "fresh" : "")}
        cells={(row) => shown.map((column) => <StatusText text={column.text(row)} />)}
        sortedBy={sorting}
        onSort={(column) =>
          setSorting((old) => ({ column, isDescending: old?.column === column ? !old.isDescending : false }))
        }
      />
      <p class="foot" role="status">
        {rows.length === table.rows.value.length ? `${rows.length} objects` : `${rows.length} of ${table.rows.value.length} objects`}
      </p>
    </>
  );
}

interface ShownColumn {
  title: string;
  hint: string;
  text: (row: Row) => string;
  order: (row: Row) => string | number;
}

function shownColumns(columns: Column[], isWide: boolean, showsNamespace: boolean): ShownColumn[] {
  const shown: ShownColumn[] = columns.flatMap((column, index) => {
    if (column.priority > 0 && !isWide) return [];
    const text = (row: Row) => cellText(row.cells[index]);
    // The server's text of an age is that of the last event; its clock may not be ours.
    const isAge = column.name === "Age" && at.value === null && !hasFeature("clock");
    return [
      {
        title: column.name,
        hint: column.description,
        text: isAge ? (row: Row) => age(row.meta.creationTimestamp) : text,
        order:
          column.name === "Age"
            ? (row: Row) => -Date.parse(row.meta.creationTimestamp)
            : (row: Row) => {
                const cell = text(row);
                return NUMBER.test(cell) ? parseFloat(cell) : cell;
              },
      },
    ];
  });
  if (!showsNamespace) return shown;
  const namespace = (row: Row) => row.meta.namespace ?? "";
  return [{ title: "Namespace", hint: "", text: namespace, order: namespace }, ...shown];
}

function sorted(rows: Row[], column: ShownColumn, isDescending: boolean): Row[] {
  const sign = isDescending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [left, right] = [column.order(a), column.order(b)];
    if (typeof left === "number" && typeof right === "number") return sign * (left - right);
    return sign * String(left).localeCompare(String(right), undefined, { numeric: true });
  });
}

/** Columns are as wide as what the first rows have in them. */
function widths(columns: ShownColumn[], rows: Row[]): GridColumn[] {
  const sample = rows.slice(0, SAMPLE);
  return columns.map((column) => {
    const longest = Math.max(column.title.length + 2, ...sample.map((row) => column.text(row).length));
    const length = Math.min(Math.max(longest, 5), 44);
    return { title: column.title, hint: column.hint, width: `minmax(${Math.min(length, 26)}ch, ${length}fr)` };
  });
}

function Filter({
  label,
  value,
  placeholder,
  onApply,
}: {
  label: string;
  value: string;
  placeholder: string;
  onApply: (value: string) => void;
}) {
  return (
    <label class="filter">
      <span>{label}</span>
      <input
        type="text"
        spellcheck={false}
        placeholder={placeholder}
        defaultValue={value}
        onChange={(event) => onApply(event.currentTarget.value.trim())}
      />
    </label>
  );
}

export function NamespaceSelect({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const [namespaces, setNamespaces] = useState<string[]>([]);
  const revision = at.value;
  useEffect(() => {
    const kind = findKind("", "namespaces");
    if (!kind) return;
    const exact = { resourceVersion: revision ?? undefined, resourceVersionMatch: revision === null ? undefined : "Exact" };
    request(pathOf(kind), { query: exact })
      .then((list: Tree) => setNamespaces(list.items.map((item: Tree) => item.metadata.name)))
      .catch(() => setNamespaces([])); // a user may not be allowed to list them, and types one
  }, [revision, kinds.value]);
  const names = namespaces.includes(value) || !value ? namespaces : [...namespaces, value];
  return (
    <label class="filter">
      <span>Namespace</span>
      {namespaces.length > 0 ? (
        <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          <option value="">all namespaces</option>
          {names.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      ) : (
        <input
          type="text"
          defaultValue={value}
          placeholder="all namespaces"
          onChange={(event) => onChange(event.currentTarget.value.trim())}
        />
      )}
    </label>
  );
}
