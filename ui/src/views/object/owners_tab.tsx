// The tree of owners: those of the object upwards, and what it owns downwards.
import { useEffect, useState } from "preact/hooks";
import { type KubeObject, type Meta, request } from "../../api/client";
import { apiVersionOf, findKindByName, type Kind, kinds, pathOf } from "../../api/discovery";
import { type Found, scanMetadata } from "../../api/scan";
import { Empty, ErrorBox, Loading } from "../../parts/states";
import { at } from "../../recording";
import { objectHref } from "../../route";

interface TreeNode {
  label: string;
  name: string;
  href: string;
  isCurrent: boolean;
  isMissing: boolean;
  children: TreeNode[];
}

const MAX_DEPTH = 10;
const LEFT_OUT = new Set(["events", "leases"]);

export function OwnersTab({ kind, object }: { kind: Kind; object: KubeObject }) {
  const [trees, setTrees] = useState<TreeNode[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const revision = at.value;
  useEffect(() => {
    let isOver = false;
    ownerTrees(kind, object, revision).then(
      (result) => isOver || setTrees(result),
      (problem: unknown) => isOver || setError(problem),
    );
    return () => {
      isOver = true;
    };
  }, [object.metadata.uid, object.metadata.resourceVersion, revision]);
  if (error !== null) return <ErrorBox error={error} />;
  if (trees === null) return <Loading what="owners and dependents" />;
  const [tree] = trees;
  if (trees.length === 1 && tree!.children.length === 0) {
    return <Empty title="This object has no owner and owns nothing." />;
  }
  return (
    <ul class="tree" aria-label="Owners and dependents">
      {trees.map((root) => (
        <Branch key={root.href} node={root} />
      ))}
    </ul>
  );
}

function Branch({ node }: { node: TreeNode }) {
  return (
    <li>
      <span class={`node ${node.isCurrent ? "current" : ""}`}>
        <span class="kind">{node.label}</span>
        {node.isMissing ? (
          <span title="It does not exist any more">{node.name} (missing)</span>
        ) : (
          <a href={node.href} aria-current={node.isCurrent ? "true" : undefined}>
            {node.name}
          </a>
        )}
      </span>
      {node.children.length > 0 && (
        <ul>
          {node.children.map((child) => (
            <Branch key={`${child.label} ${child.href}`} node={child} />
          ))}
        </ul>
      )}
    </li>
  );
}

async function ownerTrees(kind: Kind, object: KubeObject, revision: number | null): Promise<TreeNode[]> {
  // Dependents are in the namespace of their owner; a cluster-scoped owner may have them anywhere.
  const namespace = object.metadata.namespace ?? "";
  const scanned = kinds.value.filter(
    (item) => !LEFT_OUT.has(item.resource) && (item.namespaced || !namespace) && item.verbs.includes("watch"),
  );
  const found = await scanMetadata(scanned, namespace, revision);
  const byOwner = new Map<string, Found[]>();
  for (const item of found) {
    for (const owner of item.metadata.ownerReferences ?? []) {
      byOwner.set(owner.uid, [...(byOwner.get(owner.uid) ?? []), item]);
    }
  }
  const below = nodeOf(kind, object.metadata, byOwner, object.metadata.uid, 0);
  return withOwners(below, object.metadata, 0);
}

function nodeOf(kind: Kind, meta: Meta, byOwner: Map<string, Found[]>, current: string, depth: number): TreeNode {
  const children = depth < MAX_DEPTH ? (byOwner.get(meta.uid) ?? []) : [];
  return {
    label: kind.kind,
    name: meta.name,
    href: objectHref(kind, meta.namespace, meta.name, "owners"),
    isCurrent: meta.uid === current,
    isMissing: false,
    children: children
      .sort((a, b) => a.metadata.name.localeCompare(b.metadata.name))
      .map((child) => nodeOf(child.kind, child.metadata, byOwner, current, depth + 1)),
  };
}

/** Put a node below each of its owners, and these below theirs. */
async function withOwners(node: TreeNode, meta: Meta, depth: number): Promise<TreeNode[]> {
  const references = meta.ownerReferences ?? [];
  if (references.length === 0 || depth >= MAX_DEPTH) return [node];
  const trees = await Promise.all(
    references.map(async (reference) => {
      const kind = findKindByName(reference.apiVersion, reference.kind);
      const parent: TreeNode = {
        label: reference.kind,
        name: reference.name,
        href: kind ? objectHref(kind, kind.namespaced ? meta.namespace : "", reference.name, "owners") : "",
        isCurrent: false,
        isMissing: true,
        children: [node],
      };
      const owner = kind && (await ownerOf(kind, meta.namespace ?? "", reference.name, reference.uid));
      if (!owner) return [parent];
      return withOwners({ ...parent, isMissing: false }, owner.metadata, depth + 1);
    }),
  );
  return trees.flat();
}

async function ownerOf(kind: Kind, namespace: string, name: string, uid: string): Promise<KubeObject | null> {
  const path = pathOf(kind, kind.namespaced ? namespace : "", name);
  const owner = await request<KubeObject>(path).catch(() => null);
  return owner?.metadata.uid === uid ? { ...owner, apiVersion: apiVersionOf(kind) } : null;
}
