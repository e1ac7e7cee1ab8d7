// Objects that belong together without ownership: by selector, and by reference in both directions.
import { useEffect, useState } from "preact/hooks";
import type { KubeObject } from "../../api/client";
import { findKindByName, type Kind, kinds } from "../../api/discovery";
import { scanObjects } from "../../api/scan";
import { referencesOf, selects } from "../../model/relations";
import { Empty, ErrorBox, Loading } from "../../parts/states";
import { at } from "../../recording";
import { objectHref } from "../../route";

interface Relation {
  title: string;
  items: { kind: string; name: string; href: string; note: string }[];
}

/** Kinds whose objects select or name others. */
const SCANNED = new Set([
  "pods",
  "services",
  "deployments",
  "replicasets",
  "statefulsets",
  "daemonsets",
  "jobs",
  "cronjobs",
  "ingresses",
  "networkpolicies",
  "poddisruptionbudgets",
  "horizontalpodautoscalers",
  "persistentvolumeclaims",
  "serviceaccounts",
  "rolebindings",
  "endpointslices",
]);

export function RelatedTab({ object }: { object: KubeObject }) {
  const [relations, setRelations] = useState<Relation[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const revision = at.value;
  useEffect(() => {
    let isOver = false;
    relationsOf(object, revision).then(
      (result) => isOver || setRelations(result),
      (problem: unknown) => isOver || setError(problem),
    );
    return () => {
      isOver = true;
    };
  }, [object.metadata.uid, object.metadata.resourceVersion, revision]);
  if (error !== null) return <ErrorBox error={error} />;
  if (relations === null) return <Loading what="related objects" />;
  if (relations.length === 0) return <Empty title="No related objects." />;
  return (
    <div class="related">
      {relations.map((relation) => (
        <section key={relation.title}>
          <h2>{relation.title}</h2>
          <ul>
            {relation.items.map((item) => (
              <li key={`${item.kind} ${item.name} ${item.note}`}>
                <span class="kind">{item.kind}</span>
                {item.href ? <a href={item.href}>{item.name}</a> : item.name}
                {item.note && <code class="hint">{item.note}</code>}
              </li>
            ))}
          </ul>
        </section>
      ))}
    </div>
  );
}

async function relationsOf(object: KubeObject, revision: number | null): Promise<Relation[]> {
  const namespace = object.metadata.namespace ?? "";
  const scanned = kinds.value.filter((kind) => SCANNED.has(kind.resource) || (kind.isCustom && kind.namespaced));
  const others = (await scanObjects(scanned, namespace, revision)).filter(
    (other) => other.metadata.uid !== object.metadata.uid,
  );
  const link = (other: KubeObject, note = "") => ({
    kind: other.kind,
    name: other.metadata.name,
    href: hrefOfKind(findKindByName(other.apiVersion, other.kind), other.metadata.namespace, other.metadata.name),
    note,
  });
  const isPod = object.kind === "Pod" && object.apiVersion === "v1";
  const referring = others.flatMap((other) =>
    referencesOf(other)
      .filter((reference) => names(reference, object, other.metadata.namespace ?? ""))
      .map((reference) => link(other, reference.path)),
  );
  const relations = [
    {
      title: "Selects",
      items: others.filter((other) => other.kind === "Pod" && selects(object, other.metadata.labels)).map((o) => link(o)),
    },
    {
      title: "Selected by",
      items: isPod ? others.filter((other) => selects(other, object.metadata.labels)).map((o) => link(o)) : [],
    },
    {
      title: "Refers to",
      items: referencesOf(object).map((reference) => ({
        kind: reference.kind,
        name: reference.name,
        href: hrefOfKind(
          kindOf(reference.apiVersion, reference.kind),
          reference.namespace || namespace,
          reference.name,
        ),
        note: reference.path,
      })),
    },
    { title: "Referred to by", items: referring },
  ];
  return relations.filter((relation) => relation.items.length > 0);
}

function names(reference: ReturnType<typeof referencesOf>[number], object: KubeObject, namespace: string): boolean {
  return (
    reference.kind === object.kind &&
    reference.name === object.metadata.name &&
    (!object.metadata.namespace || (reference.namespace || namespace) === object.metadata.namespace)
  );
}

/** A reference may name a group alone, as roleRef does. */
function kindOf(apiVersion: string, name: string): Kind | undefined {
  const isGroup = !apiVersion.includes("/") && apiVersion.includes(".");
  return findKindByName(isGroup ? `${apiVersion}/` : apiVersion, name);
}

function hrefOfKind(kind: Kind | undefined, namespace: string | undefined, name: string): string {
  return kind ? objectHref(kind, kind.namespaced ? namespace : "", name) : "";
}
