// The writes of several kinds, from the oldest revision that the server still has.
import { useEffect, useState } from "preact/hooks";
import { timeOfRevision } from "../recording";
import type { Write } from "../model/timeline";
import type { KubeObject } from "./client";
import { type Kind, pathOf } from "./discovery";
import { timeOfWrite, watchFromOldest } from "./object_history";

const MAX_WRITES = 4000;
/** How long the history of a kind takes to arrive after its watch has begun. */
const HISTORY_MILLISECONDS = 500;
const VERBS = { ADDED: "created", MODIFIED: "updated", DELETED: "deleted" } as const;

export interface Writes {
  writes: Write[];
  /** How many of the kinds are not followed yet. */
  waiting: number;
}

export function useWrites(kinds: Kind[], namespace: string): Writes {
  const [state, setState] = useState<Writes>({ writes: [], waiting: 0 });
  const names = kinds.map((kind) => `${kind.group}/${kind.resource}`).join("\n");
  useEffect(() => {
    let all: Write[] = [];
    let timer = 0;
    const waiting = new Set(kinds);
    setState({ writes: [], waiting: kinds.length });
    const show = () => {
      timer ||= window.setTimeout(() => {
        timer = 0;
        all = all.slice(-MAX_WRITES);
        setState({ writes: all, waiting: waiting.size });
      }, 100);
    };
    const stops = kinds.map((kind) => {
      const last = new Map<string, KubeObject>();
      const began = Date.now();
      return watchFromOldest(pathOf(kind, namespace), {}, {
        event: ({ type, object }) => {
          if (type === "BOOKMARK" || type === "ERROR") return;
          const { uid, resourceVersion } = object.metadata;
          const revision = Number(resourceVersion);
          // A deletion has no time of its own; one that comes while the page watches is now.
          const isNow = type === "DELETED" && Date.now() - began > 2000;
          const time = timeOfRevision(revision) ?? (isNow ? Date.now() : timeOfWrite(object));
          const verb = VERBS[type];
          const id = `${kind.resource} ${revision} ${verb} ${uid}`;
          all.push({ id, revision, time, verb, kind, object, before: last.get(uid) });
          if (type === "DELETED") last.delete(uid);
          else last.set(uid, object);
          show();
        },
        state: (isConnected) => {
          if (!isConnected || !waiting.has(kind)) return;
          setTimeout(() => waiting.delete(kind) && show(), HISTORY_MILLISECONDS);
        },
        restarted: () => {
          last.clear();
          all = all.filter((write) => write.kind !== kind);
          show();
        },
      });
    });
    return () => {
      clearTimeout(timer);
      timer = -1; // nothing is shown any more
      for (const stop of stops) stop();
    };
  }, [names, namespace]);
  return state;
}
