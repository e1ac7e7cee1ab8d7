// Requests of the Kubernetes API, and the errors of its Status objects.
import { credentials, endSession, session } from "./session";

export type Tree = Record<string, any>;

export interface Meta {
  name: string;
  namespace?: string;
  uid: string;
  resourceVersion: string;
  creationTimestamp: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: OwnerReference[];
  managedFields?: ManagedFields[];
}

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
}

export interface ManagedFields {
  manager: string;
  operation: string;
  time?: string;
  subresource?: string;
  fieldsV1?: Tree;
}

export interface KubeObject {
  apiVersion: string;
  kind: string;
  metadata: Meta;
  [field: string]: any;
}

/** An answer with an error: its HTTP status, its reason and its causes. */
export class ApiError extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly reason: string = "",
    readonly causes: { field?: string; message?: string }[] = [],
  ) {
    super(message);
  }
}

export interface RequestOptions {
  method?: string;
  query?: Record<string, string | number | undefined>;
  accept?: string;
  body?: string;
  contentType?: string;
  signal?: AbortSignal;
}

export function pathWithQuery(path: string, query: RequestOptions["query"] = {}): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  return (session.value?.base ?? "") + path + (text ? `?${text}` : "");
}

/** Return the response to a request. Throws ApiError. */
export async function send(path: string, options: RequestOptions = {}): Promise<Response> {
  const headers: Record<string, string> = {
    ...credentials(),
    Accept: options.accept ?? "application/json",
  };
  if (options.body !== undefined) {
    headers["Content-Type"] = options.contentType ?? "application/json";
  }
  let response: Response;
  try {
    response = await fetch(pathWithQuery(path, options.query), {
      method: options.method ?? "GET",
      headers,
      body: options.body ?? null,
      signal: options.signal ?? null,
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "The server does not answer.");
  }
  if (response.ok) return response;
  const error = await errorOf(response);
  if (error.code === 401) endSession();
  throw error;
}

/** Return the JSON of the response to a request. Throws ApiError. */
export async function request<T = Tree>(path: string, options: RequestOptions = {}): Promise<T> {
  return (await (await send(path, options)).json()) as T;
}

async function errorOf(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    const status = JSON.parse(text) as Tree;
    const message = status.message ?? response.statusText;
    return new ApiError(response.status, message, status.reason, status.details?.causes);
  } catch {
    return new ApiError(response.status, text.trim() || `HTTP status ${response.status}`);
  }
}
