// The kinds that the server has, from its aggregated discovery document.
import { signal } from "@preact/signals";
import { request, type Tree } from "./client";

export interface Kind {
  group: string;
  version: string;
  resource: string;
  kind: string;
  namespaced: boolean;
  verbs: string[];
  shortNames: string[];
  /** Whether its group is not one of Kubernetes' own. */
  isCustom: boolean;
}

export const kinds = signal<Kind[]>([]);

const DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/** Read the kinds. Throws ApiError. */
export async function discover(): Promise<void> {
  const [core, groups] = await Promise.all(
    ["/api", "/apis"].map((path) => request(path, { accept: DISCOVERY })),
  );
  kinds.value = [...kindsOf(core!), ...kindsOf(groups!)];
}

function kindsOf(list: Tree): Kind[] {
  const result = new Map<string, Kind>();
  for (const group of list.items ?? []) {
    for (const version of group.versions ?? []) {
      for (const resource of version.resources ?? []) {
        const name = group.metadata?.name ?? "";
        const key = `${name}/${resource.resource}`;
        if (result.has(key) || !resource.verbs.includes("list")) continue;
        result.set(key, {
          group: name,
          version: version.version,
          resource: resource.resource,
          kind: resource.responseKind?.kind ?? resource.singularResource,
          namespaced: resource.scope === "Namespaced",
          verbs: resource.verbs,
          shortNames: resource.shortNames ?? [],
          isCustom: name.includes(".") && !name.endsWith("k8s.io"),
        });
      }
    }
  }
  return [...result.values()];
}

export function apiVersionOf(kind: Pick<Kind, "group" | "version">): string {
  return kind.group ? `${kind.group}/${kind.version}` : kind.version;
}

export function groupOf(apiVersion: string): string {
  return apiVersion.includes("/") ? apiVersion.split("/")[0]! : "";
}

/** The path of a collection, or of one object. */
export function pathOf(kind: Kind, namespace = "", name = ""): string {
  const root = kind.group ? `/apis/${kind.group}/${kind.version}` : `/api/${kind.version}`;
  const scope = kind.namespaced && namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${root}${scope}/${kind.resource}${name ? `/${encodeURIComponent(name)}` : ""}`;
}

export function findKind(group: string, resource: string): Kind | undefined {
  return kinds.value.find((kind) => kind.group === group && kind.resource === resource);
}

/** The kind with a name such as Deployment, in the group of an apiVersion. */
export function findKindByName(apiVersion: string, name: string): Kind | undefined {
  const group = groupOf(apiVersion);
  return kinds.value.find((kind) => kind.group === group && kind.kind === name);
}
