// Reads the metadata of objects of many kinds at once, a few requests at a time.
import { type KubeObject, type Meta, request } from "./client";
import { apiVersionOf, type Kind, pathOf } from "./discovery";

const PARTIAL = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const AT_ONCE = 4;

export interface Found {
  kind: Kind;
  metadata: Meta;
}

/** Return the metadata of all objects of some kinds; kinds that cannot be listed count as empty. */
export async function scanMetadata(kinds: Kind[], namespace: string, at: number | null): Promise<Found[]> {
  const exact = at === null ? {} : { resourceVersion: at, resourceVersionMatch: "Exact" };
  const lists = await inTurns(kinds, async (kind) => {
    const path = pathOf(kind, namespace);
    const list = await request<{ items: { metadata: Meta }[] }>(path, { accept: PARTIAL, query: exact });
    return list.items.map(({ metadata }) => ({ kind, metadata }));
  });
  return lists.flat();
}

/** Return the objects of some kinds in a namespace; kinds that cannot be listed count as empty. */
export async function scanObjects(kinds: Kind[], namespace: string, at: number | null): Promise<KubeObject[]> {
  const exact = at === null ? {} : { resourceVersion: at, resourceVersionMatch: "Exact" };
  const lists = await inTurns(kinds, async (kind) => {
    const list = await request<{ items: KubeObject[] }>(pathOf(kind, namespace), { query: exact });
    return list.items.map((item) => ({ ...item, apiVersion: apiVersionOf(kind), kind: kind.kind }));
  });
  return lists.flat();
}

async function inTurns<T, R>(items: T[], work: (item: T) => Promise<R[]>): Promise<R[][]> {
  const results: R[][] = [];
  const queue = [...items];
  const worker = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) {
      results.push(await work(item).catch(() => []));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return results;
}
