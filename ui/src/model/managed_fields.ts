// Who owns which field of an object, and who has made a write: metadata.managedFields.
import type { KubeObject, ManagedFields, Tree } from "../api/client";
import { fieldDiff, isTree } from "./field_diff";

export interface Owner {
  manager: string;
  operation: string;
  subresource: string;
  time: string;
}

export interface OwnedField {
  /** The names from the root to this field; items of lists as `[name=app]`. */
  path: string[];
  /** The value of a field without fields below it. */
  value: string;
  isLeaf: boolean;
  owners: Owner[];
}

/** The fields of an object in their order, with the owners of each. */
export function ownedFields(object: KubeObject): OwnedField[] {
  const entries = (object.metadata.managedFields ?? []).map((entry) => ({
    owner: ownerOf(entry),
    fields: entry.fieldsV1,
  }));
  const rows: OwnedField[] = [];
  const { managedFields: _, ...metadata } = object.metadata;
  walk([], { ...object, metadata }, present(entries), rows);
  return rows.slice(1);
}

type Entries = { owner: Owner; fields: Tree }[];

function walk(path: string[], value: unknown, entries: Entries, rows: OwnedField[]): void {
  const isBranch = (isTree(value) || Array.isArray(value)) && Object.keys(value).length > 0;
  rows.push({
    path,
    value: isBranch ? "" : (JSON.stringify(value) ?? ""),
    isLeaf: !isBranch,
    owners: entries.map((entry) => entry.owner),
  });
  if (!isBranch) return;
  if (Array.isArray(value)) {
    value.forEach((item, index) => {
      const below = entries.map(({ owner, fields }) => ({
        owner,
        fields: isWhole(fields) ? fields : fieldsOfItem(fields, item, index),
      }));
      walk([...path, itemName(item, index)], item, present(below), rows);
    });
  } else if (isTree(value)) {
    for (const [key, item] of Object.entries(value)) {
      const below = entries.map(({ owner, fields }) => ({
        owner,
        fields: isWhole(fields) ? fields : fields[`f:${key}`],
      }));
      walk([...path, key], item, present(below), rows);
    }
  }
}

/** Whether a field is owned with all that is below it: it is atomic, as selectors are. */
function isWhole(fields: Tree): boolean {
  return Object.keys(fields).length === 0;
}

function present(entries: { owner: Owner; fields: Tree | undefined }[]): Entries {
  return entries.filter((entry): entry is Entries[number] => entry.fields !== undefined);
}

function fieldsOfItem(fields: Tree, item: unknown, index: number): Tree | undefined {
  for (const [name, below] of Object.entries(fields)) {
    if (name.startsWith("k:") && isTree(item)) {
      const keys = JSON.parse(name.slice(2)) as Record<string, unknown>;
      if (Object.entries(keys).every(([key, value]) => item[key] === value)) return below as Tree;
    } else if (name.startsWith("v:") && JSON.stringify(item) === name.slice(2)) {
      return below as Tree;
    } else if (name === `i:${index}`) {
      return below as Tree;
    }
  }
  return undefined;
}

function itemName(item: unknown, index: number): string {
  if (isTree(item)) {
    for (const key of ["name", "type", "key", "containerPort", "port", "uid"]) {
      if (key in item) return `[${key}=${String(item[key])}]`;
    }
  }
  return `[${index}]`;
}

function ownerOf(entry: ManagedFields): Owner {
  return {
    manager: entry.manager,
    operation: entry.operation,
    subresource: entry.subresource ?? "",
    time: entry.time ?? "",
  };
}

/** The owner of a write: the newest entry that has gained a field, else the newest that owns a field
 * which has changed. null if nobody does, as of a binding. */
export function writerOf(before: KubeObject | undefined, after: KubeObject): Owner | null {
  const entries = after.metadata.managedFields ?? [];
  const earlier = new Map((before?.metadata.managedFields ?? []).map((entry) => [identityOf(entry), entry]));
  const gained = entries.filter(
    (entry) => JSON.stringify(earlier.get(identityOf(entry))?.fieldsV1) !== JSON.stringify(entry.fieldsV1),
  );
  let candidates = gained;
  if (gained.length === 0 && before) {
    const changes = fieldDiff(before, after);
    candidates = entries.filter((entry) => changes.some(({ path }) => owns(entry.fieldsV1 ?? {}, path)));
  }
  const newest = [...candidates].sort((a, b) => (a.time ?? "").localeCompare(b.time ?? "")).at(-1);
  return newest ? ownerOf(newest) : null;
}

/** Whether an entry owns a field, or something in it; items of lists count as their list. */
function owns(fields: Tree, path: string): boolean {
  let below: Tree | undefined = fields;
  for (const name of path.split("[")[0]!.split(".")) {
    below = below?.[`f:${name}`];
  }
  return below !== undefined;
}

function identityOf(entry: ManagedFields): string {
  return [entry.manager, entry.operation, entry.subresource ?? ""].join("\n");
}
