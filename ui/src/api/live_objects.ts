// The objects of a collection, listed and then followed by a watch: an informer of the page.
import { useEffect, useState } from "preact/hooks";
import { type KubeObject, request } from "./client";
import { type Query, retryPause, watchObjects } from "./watch";

export interface Objects {
  items: KubeObject[];
  isLoading: boolean;
  error: unknown;
}

interface List {
  apiVersion: string;
  kind: string;
  metadata: { resourceVersion: string };
  items: KubeObject[];
}

/** Follow a collection; `path` "" is none, and `at` asks for one revision. */
export function useObjects(path: string, query: Query = {}, at: number | null = null): Objects {
  const [state, setState] = useState<Objects>({ items: [], isLoading: true, error: null });
  useEffect(() => {
    setState({ items: [], isLoading: path !== "", error: null });
    if (!path) return;
    let isOver = false;
    let stop = () => {};
    let timer = 0;
    let attempt = 0;
    const byUid = new Map<string, KubeObject>();
    let isPlanned = false;
    const show = () => {
      if (isPlanned) return;
      isPlanned = true;
      setTimeout(() => {
        isPlanned = false;
        if (!isOver) setState({ items: [...byUid.values()], isLoading: false, error: null });
      }, 50);
    };
    const begin = async () => {
      try {
        const list = await listObjects(path, query, at);
        byUid.clear();
        for (const item of list.items) byUid.set(item.metadata.uid, item);
        attempt = 0;
        show();
        if (isOver || at !== null) return;
        stop = watchObjects(path, query, list.metadata.resourceVersion, {
          event: ({ type, object }) => {
            if (type === "DELETED") byUid.delete(object.metadata.uid);
            else if (type !== "BOOKMARK") byUid.set(object.metadata.uid, object);
            show();
          },
          expired: () => void begin(),
        });
      } catch (error) {
        if (isOver) return;
        setState((old) => ({ ...old, isLoading: false, error }));
        timer = window.setTimeout(() => void begin(), retryPause(attempt++));
      }
    };
    void begin();
    return () => {
      isOver = true;
      clearTimeout(timer);
      stop();
    };
  }, [path, JSON.stringify(query), at]);
  return state;
}

/** List objects; each has its apiVersion and kind, which a list leaves out. Throws ApiError. */
export async function listObjects(path: string, query: Query = {}, at: number | null = null): Promise<List> {
  const exact = at === null ? {} : { resourceVersion: at, resourceVersionMatch: "Exact" };
  const list = await request<List>(path, { query: { ...query, ...exact } });
  const [apiVersion, kind] = [list.apiVersion, list.kind.replace(/List$/, "")];
  list.items = list.items.map((item) => ({ ...item, apiVersion, kind }));
  return list;
}
