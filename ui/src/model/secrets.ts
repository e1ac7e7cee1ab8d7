// What of a Secret stays hidden until a person asks for it.
import type { KubeObject } from "../api/client";

const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
export const HIDDEN = "••••••";

export function isSecret(object: { apiVersion: string; kind: string }): boolean {
  return object.apiVersion === "v1" && object.kind === "Secret";
}

/** Return the Secret with its values replaced; other objects as they are. */
export function hideSecret<T extends KubeObject>(object: T): T {
  if (!isSecret(object)) return object;
  const hidden = (values: Record<string, string> | undefined) =>
    values && Object.fromEntries(Object.keys(values).map((key) => [key, HIDDEN]));
  const annotations = object.metadata.annotations;
  const metadata =
    annotations && LAST_APPLIED in annotations
      ? { ...object.metadata, annotations: { ...annotations, [LAST_APPLIED]: HIDDEN } }
      : object.metadata;
  const copy: KubeObject = { ...object, metadata };
  for (const field of ["data", "stringData"]) {
    if (object[field]) copy[field] = hidden(object[field]);
  }
  return copy as T;
}

/** Whether a change of a Secret's field shows a secret value. */
export function isSecretField(path: string): boolean {
  return path === "" || /^(data|stringData)\b/.test(path) || path.includes(LAST_APPLIED);
}
