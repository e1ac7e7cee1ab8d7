// A table of objects with the server's columns: listed in pages, then followed by a watch.
import { signal } from "@preact/signals";
import { ApiError, type Meta, request, type Tree } from "./client";
import { type Kind, pathOf } from "./discovery";
import { retryPause, streamEvents } from "./watch";

export interface Column {
  name: string;
  type: string;
  format: string;
  description: string;
  priority: number;
}

export interface Row {
  key: string;
  cells: unknown[];
  meta: Meta;
  /** When the row was last changed by an event of the watch; 0 for rows of the list. */
  changed: number;
}

export interface TableQuery {
  namespace: string;
  labelSelector: string;
  fieldSelector: string;
  /** The revision to show; null follows the newest. */
  at: number | null;
}

const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PAGE = 1000;

interface TableAnswer {
  metadata: { resourceVersion: string; continue?: string };
  columnDefinitions?: Column[];
  rows: { cells: unknown[]; object: { metadata: Meta } }[];
}

export class LiveTable {
  readonly columns = signal<Column[]>([]);
  readonly rows = signal<Row[]>([]);
  readonly isLoading = signal(true);
  readonly isLive = signal(false);
  readonly error = signal<ApiError | null>(null);

  private readonly abort = new AbortController();
  private byKey = new Map<string, Row>();
  private isFlushPlanned = false;

  constructor(
    private readonly kind: Kind,
    private readonly query: TableQuery,
  ) {
    void this.run();
  }

  stop(): void {
    this.abort.abort();
  }

  private get path(): string {
    return pathOf(this.kind, this.query.namespace);
  }

  private get selectors() {
    const { labelSelector, fieldSelector } = this.query;
    return { labelSelector, fieldSelector };
  }

  private async run(): Promise<void> {
    for (let attempt = 0; !this.abort.signal.aborted; attempt++) {
      try {
        let version = await this.list();
        attempt = 0;
        if (this.query.at !== null) return;
        for (;;) version = await this.follow(version);
      } catch (error) {
        if (this.abort.signal.aborted) return;
        this.isLive.value = false;
        this.isLoading.value = false;
        const apiError = error instanceof ApiError ? error : new ApiError(0, "The watch has ended.");
        // A watch that has expired lists again at once, and no one needs to know.
        if (apiError.code !== 410) this.error.value = apiError;
        if (apiError.code >= 400 && apiError.code < 500 && ![410, 429].includes(apiError.code)) return;
        await new Promise((resolve) => setTimeout(resolve, retryPause(attempt)));
      }
    }
  }

  /** Read all rows, and return their revision. */
  private async list(): Promise<string> {
    const rows = new Map<string, Row>();
    let next = "";
    let first = "";
    do {
      const exact = { resourceVersion: this.query.at ?? undefined, resourceVersionMatch: "Exact" };
      const table: TableAnswer = await request<TableAnswer>(this.path, {
        query: {
          ...this.selectors,
          limit: PAGE,
          continue: next,
          ...(this.query.at !== null && !next ? exact : {}),
        },
        accept: TABLE,
        signal: this.abort.signal,
      });
      if (table.columnDefinitions) this.columns.value = table.columnDefinitions;
      for (const row of table.rows ?? []) {
        const meta = row.object.metadata;
        rows.set(keyOf(meta), { key: keyOf(meta), cells: row.cells, meta, changed: 0 });
      }
      first ||= table.metadata.resourceVersion;
      next = table.metadata.continue ?? "";
      this.byKey = rows;
      this.flush();
      this.isLoading.value = false;
    } while (next);
    this.error.value = null;
    return first;
  }

  /** Follow the changes after a revision until the watch ends; return the last revision. */
  private async follow(version: string): Promise<string> {
    const query = { ...this.selectors, resourceVersion: version, allowWatchBookmarks: "true" };
    const events = streamEvents<TableAnswer>(this.path, query, TABLE, this.abort.signal);
    this.isLive.value = true;
    for await (const event of events) {
      for (const { cells, object } of event.object.rows ?? []) {
        const meta = object.metadata;
        version = meta.resourceVersion;
        if (event.type === "BOOKMARK") continue;
        if (event.type === "DELETED") this.byKey.delete(keyOf(meta));
        else this.byKey.set(keyOf(meta), { key: keyOf(meta), cells, meta, changed: Date.now() });
        this.planFlush();
      }
    }
    return version;
  }

  /** Show the changes with the next frame: many events cost one rendering. */
  private planFlush(): void {
    if (this.isFlushPlanned) return;
    this.isFlushPlanned = true;
    setTimeout(() => this.flush(), 50);
  }

  private flush(): void {
    this.isFlushPlanned = false;
    this.rows.value = [...this.byKey.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
  }
}

function keyOf(meta: Meta): string {
  return `${meta.namespace ?? ""}/${meta.name}`;
}

/** The text of a cell. */
export function cellText(cell: unknown): string {
  if (cell === null || cell === undefined) return "";
  return typeof cell === "object" ? JSON.stringify(cell as Tree) : String(cell);
}
