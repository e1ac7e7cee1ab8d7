// Writes and requests in one order, who did them, and what caused them.
import type { KubeObject } from "../api/client";
import type { Kind } from "../api/discovery";
import type { RecordedRequest } from "../recording";
import { type Change, fieldDiff } from "./field_diff";
import { writerOf } from "./managed_fields";

export interface Write {
  id: string;
  revision: number;
  /** Milliseconds since the epoch. */
  time: number;
  verb: "created" | "updated" | "deleted";
  kind: Kind;
  object: KubeObject;
  before: KubeObject | undefined;
}

export type Cause = { from: string; why: "owner" | "manager" | "request" };

export interface Mark {
  id: string;
  time: number;
  actor: string;
  verb: string;
  title: string;
  /** The object, if the mark is a write; a request has none. */
  write: Write | null;
  request: RecordedRequest | null;
  causes: Cause[];
}

export interface Timeline {
  actors: string[];
  marks: Mark[];
}

const DELETIONS = "(deletion)";
const UNKNOWN = "(unknown)";
const REQUEST_MILLISECONDS = 2000;
const WRITING = new Set(["create", "update", "patch", "delete", "deletecollection"]);

/** Put writes, the newest `limit` of them, and requests in their order, and say what caused what. */
export function timelineOf(writes: Write[], requests: RecordedRequest[], limit: number): Timeline {
  const ordered = [...writes].sort((a, b) => a.revision - b.revision);
  const lastByUid = new Map<string, Mark>();
  const marks: Mark[] = [];
  let time = 0;
  for (const write of ordered) {
    // Some writes say no time of their own, such as deletions; revisions are in the order of time.
    time = Math.max(time, write.time);
    const mark = { ...markOf(write), time };
    const { uid, ownerReferences = [] } = write.object.metadata;
    const previous = lastByUid.get(uid);
    if (previous && previous.actor !== mark.actor) mark.causes.push({ from: previous.id, why: "manager" });
    if (write.verb === "created") {
      for (const reference of ownerReferences) {
        const owner = lastByUid.get(reference.uid);
        if (owner) mark.causes.push({ from: owner.id, why: "owner" });
      }
    }
    lastByUid.set(uid, mark);
    marks.push(mark);
  }
  const all = merged(marks, requests.filter((request) => WRITING.has(request.verb)).map(markOfRequest));
  const shown = all.slice(-limit);
  const actors = [...new Set(shown.map((mark) => mark.actor))];
  return { actors, marks: shown };
}

function markOf(write: Write): Mark {
  const writer = write.verb === "deleted" ? null : writerOf(write.before, write.object);
  const { namespace, name } = write.object.metadata;
  const place = namespace ? `${namespace}/${name}` : name;
  return {
    id: write.id,
    time: write.time,
    actor: writer?.manager ?? (write.verb === "deleted" ? DELETIONS : UNKNOWN),
    verb: write.verb,
    title: `${write.kind.kind} ${place}`,
    write,
    request: null,
    causes: [],
  };
}

function markOfRequest(request: RecordedRequest): Mark {
  const agent = request.user_agent.split(/[/ ]/)[0];
  return {
    id: `request ${request.number}`,
    time: Date.parse(request.time),
    actor: `${request.user}${agent ? ` (${agent})` : ""}`,
    verb: request.verb,
    title: `${request.resource} ${[request.namespace, request.name].filter(Boolean).join("/")}`,
    write: null,
    request,
    causes: [],
  };
}

/** Merge by time, and connect each request with the first write of its object that follows. */
function merged(writes: Mark[], requests: Mark[]): Mark[] {
  for (const mark of requests) {
    const target = writes.find((write) => isOf(mark.request!, write.write!) && isSoonAfter(mark, write));
    target?.causes.push({ from: mark.id, why: "request" });
  }
  // A request comes before the writes of the same moment, and writes stay in the order of revisions.
  return [...requests, ...writes].sort((a, b) => a.time - b.time || Number(b.request !== null) - Number(a.request !== null));
}

function isOf(request: RecordedRequest, write: Write): boolean {
  const { namespace = "", name } = write.object.metadata;
  const resource = write.kind.group ? `${write.kind.resource}.${write.kind.group}` : write.kind.resource;
  const isNamed = request.name ? request.name === name : request.verb === "create" && write.verb === "created";
  return request.resource === resource && request.namespace === namespace && isNamed;
}

function isSoonAfter(request: Mark, write: Mark): boolean {
  return write.time >= request.time && write.time - request.time < REQUEST_MILLISECONDS;
}

export function changesOf(write: Write): Change[] {
  return write.before && write.verb === "updated" ? fieldDiff(write.before, write.object) : [];
}
