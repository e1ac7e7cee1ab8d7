// Watches: over WebSocket for objects, of which a browser allows many, and over fetch for tables,
// whose form a header asks for. Both begin again after an end; the caller lists anew when its
// revision is too old.
import { ApiError, type KubeObject, pathWithQuery, send, type Tree } from "./client";
import { session } from "./session";

export interface WatchEvent<T = KubeObject> {
  type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  object: T;
}

export type Query = Record<string, string | number | undefined>;

const RETRY_MILLISECONDS = [250, 500, 1000, 2000, 4000];

/** The pause before attempt number `attempt`, 0 for the first. */
export function retryPause(attempt: number): number {
  return RETRY_MILLISECONDS[Math.min(attempt, RETRY_MILLISECONDS.length - 1)]!;
}

/** Browsers delay new WebSockets by seconds while many are being opened. */
const MAX_OPENING = 3;
let opening = 0;
const waiting: (() => void)[] = [];

/** Call `open` when few others are being opened. Return what gives its place back, once; that also
 * takes it from the queue. */
function whenFewAreOpening(open: () => void): () => void {
  let isWaiting = true;
  let hasPlace = false;
  const start = () => {
    isWaiting = false;
    hasPlace = true;
    opening++;
    open();
  };
  if (opening < MAX_OPENING) start();
  else waiting.push(start);
  return () => {
    if (isWaiting) waiting.splice(waiting.indexOf(start), 1);
    if (hasPlace) {
      opening--;
      waiting.shift()?.();
    }
    isWaiting = hasPlace = false;
  };
}

/** Watch objects until the function that is returned is called.
 *
 * onEvent takes ADDED, MODIFIED, DELETED and BOOKMARK; onExpired is called when the revision is too
 * old, with the server's message, and ends the watch; onState tells whether it is connected. */
export function watchObjects(
  path: string,
  query: Query,
  resourceVersion: string,
  on: {
    event: (event: WatchEvent) => void;
    expired: (message: string) => void;
    state?: (isConnected: boolean) => void;
  },
): () => void {
  let version = resourceVersion;
  let isOver = false;
  let attempt = 0;
  let socket: WebSocket | undefined;
  let timer = 0;
  let leaveQueue = () => {};

  const open = () => {
    const protocols = session.value?.token
      ? [`base64url.bearer.authorization.k8s.io.${base64url(session.value.token)}`, "base64.binary.k8s.io"]
      : [];
    const target = pathWithQuery(path, {
      ...query,
      watch: "true",
      allowWatchBookmarks: "true",
      resourceVersion: version,
    });
    socket = new WebSocket(location.origin.replace(/^http/, "ws") + target, protocols);
    socket.onopen = () => {
      leaveQueue();
      attempt = 0;
      on.state?.(true);
    };
    socket.onmessage = (message: MessageEvent<string>) => {
      const event = JSON.parse(message.data) as WatchEvent;
      if (event.type === "ERROR") {
        isOver = true;
        socket?.close();
        on.expired((event.object as Tree).message ?? "");
        return;
      }
      version = event.object.metadata.resourceVersion;
      on.event(event);
    };
    socket.onclose = () => {
      leaveQueue();
      if (isOver) return;
      on.state?.(false);
      timer = window.setTimeout(begin, retryPause(attempt++));
    };
  };
  const begin = () => {
    leaveQueue = whenFewAreOpening(open);
  };
  begin();
  return () => {
    isOver = true;
    clearTimeout(timer);
    socket?.close();
    // A socket that is being opened keeps its place until its end.
    if (socket?.readyState !== WebSocket.CONNECTING) leaveQueue();
  };
}

function base64url(text: string): string {
  const bytes = new TextEncoder().encode(text);
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

/** Yield the lines of a streamed response as JSON. Throws ApiError, also for an event of the type
 * ERROR. */
export async function* streamEvents<T>(
  path: string,
  query: Query,
  accept: string,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent<T>> {
  const response = await send(path, { query: { ...query, watch: "true" }, accept, signal });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop()!;
    for (const line of lines) {
      if (!line) continue;
      const event = JSON.parse(line) as WatchEvent<T>;
      if (event.type === "ERROR") {
        const status = event.object as Tree;
        throw new ApiError(status.code ?? 500, status.message ?? "", status.reason);
      }
      yield event;
    }
  }
}
