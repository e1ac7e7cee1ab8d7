// One object: its current state and its revisions, as far as the server still has them.
import { useEffect, useState } from "preact/hooks";
import { ApiError, type KubeObject, request } from "./client";
import { type Kind, pathOf } from "./discovery";
import { watchFromOldest } from "./object_history";

export interface Revision {
  type: "ADDED" | "MODIFIED" | "DELETED";
  object: KubeObject;
}

export interface ObjectState {
  /** The object as it is now, or at the chosen revision; null if there is none. */
  object: KubeObject | null;
  /** The revisions, the oldest first. */
  revisions: Revision[];
  isLoading: boolean;
  error: unknown;
}

const MAX_REVISIONS = 500;

/** Follow an object; `at` hides what came after a revision. */
export function useObject(kind: Kind, namespace: string, name: string, at: number | null): ObjectState {
  const [current, setCurrent] = useState<KubeObject | null>(null);
  const [revisions, setRevisions] = useState<Revision[]>([]);
  const [isLoading, setLoading] = useState(true);
  const [error, setError] = useState<unknown>(null);
  const path = pathOf(kind, namespace);

  useEffect(() => {
    let isOver = false;
    let pending: Revision[] = [];
    let timer = 0;
    setRevisions([]);
    const stop = watchFromOldest(path, { fieldSelector: `metadata.name=${name}` }, {
      event: ({ type, object }) => {
        if (type === "BOOKMARK" || type === "ERROR") return;
        pending.push({ type, object });
        if (type === "DELETED") setCurrent(null);
        else setCurrent(object);
        if (timer) return;
        timer = window.setTimeout(() => {
          timer = 0;
          const added = pending;
          pending = [];
          if (!isOver) setRevisions((old) => [...old, ...added].slice(-MAX_REVISIONS));
        }, 30);
      },
      restarted: () => {
        pending = [];
        setRevisions([]);
      },
    });
    setLoading(true);
    setError(null);
    const abort = new AbortController();
    request<KubeObject>(pathOf(kind, namespace, name), { signal: abort.signal })
      .then((object) => setCurrent((old) => (old && newer(old, object) ? old : object)))
      .catch((problem: unknown) => {
        if (!abort.signal.aborted && !(problem instanceof ApiError && problem.code === 404)) setError(problem);
      })
      .finally(() => setLoading(false));
    return () => {
      isOver = true;
      clearTimeout(timer);
      abort.abort();
      stop();
    };
  }, [path, name]);

  if (at === null) return { object: current, revisions, isLoading, error };
  const past = revisions.filter(({ object }) => Number(object.metadata.resourceVersion) <= at);
  const last = past.at(-1);
  const object = last && last.type !== "DELETED" ? last.object : null;
  return { object, revisions: past, isLoading: isLoading && !last, error };
}

function newer(left: KubeObject, right: KubeObject): boolean {
  return Number(left.metadata.resourceVersion) > Number(right.metadata.resourceVersion);
}
