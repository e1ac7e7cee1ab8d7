// How objects belong together: owners, selectors and references by name.
import type { KubeObject, Tree } from "../api/client";
import { isTree } from "./field_diff";

export interface Reference {
  /** The field that names the object. */
  path: string;
  kind: string;
  /** "" if the field does not say it. */
  apiVersion: string;
  name: string;
  /** "" means the namespace of the object that refers. */
  namespace: string;
}

/** Names of fields whose text is the name of an object, and its kind. */
const NAME_FIELDS: Record<string, string> = {
  serviceAccountName: "ServiceAccount",
  nodeName: "Node",
  secretName: "Secret",
  claimName: "PersistentVolumeClaim",
  volumeName: "PersistentVolume",
  persistentVolumeName: "PersistentVolume",
  storageClassName: "StorageClass",
  priorityClassName: "PriorityClass",
  runtimeClassName: "RuntimeClass",
  ingressClassName: "IngressClass",
  serviceName: "Service",
};
/** Names of fields whose value is `{name: ...}`, and the kind of the name. */
const OBJECT_FIELDS: Record<string, string> = {
  configMap: "ConfigMap",
  configMapRef: "ConfigMap",
  configMapKeyRef: "ConfigMap",
  secretRef: "Secret",
  secretKeyRef: "Secret",
  imagePullSecrets: "Secret",
  service: "Service",
};
const API_VERSIONS: Record<string, string> = {
  StorageClass: "storage.k8s.io/v1",
  PriorityClass: "scheduling.k8s.io/v1",
  RuntimeClass: "node.k8s.io/v1",
  IngressClass: "networking.k8s.io/v1",
};

/** The objects that an object's own fields name; metadata is left out. */
export function referencesOf(object: KubeObject): Reference[] {
  const references: Reference[] = [];
  const { metadata: _, status: __, ...rest } = object;
  collect("", rest, "", references);
  const seen = new Set<string>();
  return references.filter((reference) => {
    const key = `${reference.kind}/${reference.namespace}/${reference.name}`;
    return !seen.has(key) && Boolean(seen.add(key));
  });
}

function collect(path: string, value: unknown, field: string, references: Reference[]): void {
  if (Array.isArray(value)) {
    value.forEach((item, index) => collect(`${path}[${index}]`, item, field, references));
    return;
  }
  if (!isTree(value)) return;
  const name = value.name;
  if (typeof name === "string" && name) {
    const kind = typeof value.kind === "string" && path ? value.kind : OBJECT_FIELDS[field];
    if (kind) {
      const apiVersion = (value.apiVersion ?? value.apiGroup ?? API_VERSIONS[kind] ?? "v1") as string;
      const namespace = typeof value.namespace === "string" ? value.namespace : "";
      references.push({ path, kind, apiVersion, name, namespace });
    }
  }
  for (const [key, item] of Object.entries(value)) {
    const below = path ? `${path}.${key}` : key;
    const kind = NAME_FIELDS[key];
    if (kind && typeof item === "string" && item) {
      references.push({ path: below, kind, apiVersion: API_VERSIONS[kind] ?? "v1", name: item, namespace: "" });
    } else {
      collect(below, item, key, references);
    }
  }
}

/** Report whether the selector of a Service, a workload or a policy selects these labels; an empty
 * selector selects nothing. */
export function selects(object: KubeObject, labels: Record<string, string> | undefined): boolean {
  const selector: unknown = object.spec?.selector ?? object.spec?.podSelector;
  if (!isTree(selector) || !labels) return false;
  const isLabelSelector = "matchLabels" in selector || "matchExpressions" in selector;
  const wanted = (isLabelSelector ? (selector.matchLabels ?? {}) : selector) as Record<string, string>;
  const expressions = (isLabelSelector ? (selector.matchExpressions ?? []) : []) as Tree[];
  if (Object.keys(wanted).length + expressions.length === 0) return false;
  return (
    Object.entries(wanted).every(([key, value]) => labels[key] === value) &&
    expressions.every((expression) => meets(expression, labels))
  );
}

function meets(expression: Tree, labels: Record<string, string>): boolean {
  const value = labels[expression.key];
  switch (expression.operator) {
    case "In":
      return value !== undefined && expression.values.includes(value);
    case "NotIn":
      return value === undefined || !expression.values.includes(value);
    case "Exists":
      return value !== undefined;
    default:
      return value === undefined;
  }
}
