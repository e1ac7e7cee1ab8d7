// The revisions that the server still has: a watch from the oldest of them, which then goes on live.
import type { KubeObject, Tree } from "./client";
import { type Query, watchObjects, type WatchEvent } from "./watch";

/** Watch from the oldest revision that the server has, or from `oldest` on. `changed` is called when
 * a revision is too old and the watch begins at a newer one, so that what came before is void.
 * Return what ends it. */
export function watchFromOldest(
  path: string,
  query: Query,
  on: {
    event: (event: WatchEvent<KubeObject>) => void;
    restarted: () => void;
    state?: (isConnected: boolean) => void;
  },
  oldest = "1",
): () => void {
  let stop = () => {};
  let attempts = 0;
  const begin = (version: string) => {
    stop = watchObjects(path, query, version, {
      event: on.event,
      state: (isConnected) => on.state?.(isConnected),
      expired: (message) => {
        on.restarted();
        // "too old resource version: 1 (523)" names the oldest one.
        const named = /\((\d+)\)/.exec(message)?.[1];
        if (named !== undefined && attempts++ < 20) begin(named);
      },
    });
  };
  begin(oldest);
  return () => stop();
}

/** When an object was last written, as far as it says so, in milliseconds. */
export function timeOfWrite(object: KubeObject): number {
  const times = [
    ...(object.metadata.managedFields ?? []).map((entry) => entry.time),
    object.metadata.creationTimestamp,
    (object as Tree).metadata.deletionTimestamp as string | undefined,
  ];
  return Math.max(...times.map((time) => Date.parse(time ?? "")).filter((time) => !Number.isNaN(time)));
}
