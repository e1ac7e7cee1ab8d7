// The fields in which two objects differ; items of lists are matched by their name, type or key.

export interface Change {
  path: string;
  before: unknown;
  after: unknown;
}

const IDENTITIES = ["name", "type", "uid", "key", "ip", "containerPort", "port"];
const LEFT_OUT = new Set(["metadata.managedFields", "metadata.resourceVersion"]);

/** undefined stands for an object or a field that is not there. */
export function fieldDiff(before: unknown, after: unknown): Change[] {
  const changes: Change[] = [];
  compare("", before, after, changes);
  return changes;
}

function compare(path: string, before: unknown, after: unknown, changes: Change[]): void {
  if (before === after || LEFT_OUT.has(path)) return;
  if (isTree(before) && isTree(after)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
      compare(path ? `${path}.${key}` : key, before[key], after[key], changes);
    }
  } else if (Array.isArray(before) && Array.isArray(after)) {
    const identity = identityOf(before, after);
    const [old, fresh] = [byIdentity(before, identity), byIdentity(after, identity)];
    for (const key of new Set([...old.keys(), ...fresh.keys()])) {
      compare(`${path}[${key}]`, old.get(key), fresh.get(key), changes);
    }
  } else if (JSON.stringify(before) !== JSON.stringify(after)) {
    changes.push({ path, before, after });
  }
}

export function isTree(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function identityOf(...lists: unknown[][]): string {
  const isIdentity = (name: string) =>
    lists.every(
      (items) =>
        items.every((item) => isTree(item) && name in item) &&
        new Set(items.map((item) => String((item as Record<string, unknown>)[name]))).size === items.length,
    );
  return IDENTITIES.find(isIdentity) ?? "";
}

function byIdentity(items: unknown[], identity: string): Map<string, unknown> {
  return new Map(
    items.map((item, index) => [
      identity ? `${identity}=${(item as Record<string, unknown>)[identity]}` : String(index),
      item,
    ]),
  );
}
