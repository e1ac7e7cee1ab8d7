// Who is signed in, and with what: the cookie of a one-time link, a token, or nothing on a port
// where everybody is an administrator. A token stays in the memory of this page.
import { signal } from "@preact/signals";

export interface Session {
  user: string;
  /** What the server has besides the API: "simulation", "clock", "recording". */
  features: string[];
  /** The prefix of the paths of the API. */
  base: string;
  token: string;
}

/** null while nobody is signed in. */
export const session = signal<Session | null>(null);
/** Whether the server was asked who is signed in. */
export const isSessionKnown = signal(false);
/** Why the last attempt to sign in failed. */
export const signInError = signal("");

const HEADERS = { "Kapiserver-UI": "1" };
let features: string[] = [];

/** Use the key in the fragment if there is one, then ask who is signed in. */
export async function openSession(): Promise<void> {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (key !== null) {
    history.replaceState(null, "", location.pathname);
    const response = await fetch("/ui/session", {
      method: "POST",
      headers: { ...HEADERS, "Content-Type": "application/json" },
      body: JSON.stringify({ key }),
    });
    if (!response.ok) {
      signInError.value = "This link was used before, or is more than an hour old.";
    }
  }
  try {
    const response = await fetch("/ui/session", { headers: HEADERS });
    const answer = (await response.json()) as { user: string; isOpen: boolean; features: string[] };
    features = answer.features;
    if (answer.user) {
      signInError.value = "";
      session.value = {
        user: answer.user,
        features,
        base: answer.isOpen ? "" : "/ui/proxy",
        token: "",
      };
    }
  } catch {
    signInError.value = "The server does not answer.";
  }
  isSessionKnown.value = true;
}

/** Sign in with a bearer token, which the server checks. */
export async function signInWithToken(token: string): Promise<void> {
  const url = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
  const response = await fetch(url, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body: JSON.stringify({ apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" }),
  });
  const review = response.ok
    ? ((await response.json()) as { status: { userInfo: { username: string } } })
    : null;
  if (review === null || review.status.userInfo.username === "system:anonymous") {
    signInError.value = "The server does not know this token.";
    return;
  }
  signInError.value = "";
  session.value = { user: review.status.userInfo.username, features, base: "", token };
}

export async function signOut(): Promise<void> {
  if (session.value?.base) {
    await fetch("/ui/session", { method: "DELETE", headers: HEADERS });
  }
  session.value = null;
}

/** Forget a session that the server does not know any more. */
export function endSession(): void {
  if (session.value !== null) {
    signInError.value = "The server has ended this session. It may have started again.";
    session.value = null;
  }
}

/** The headers that say who sends a request. */
export function credentials(): Record<string, string> {
  const token = session.value?.token;
  return token ? { ...HEADERS, Authorization: `Bearer ${token}` } : HEADERS;
}

export function hasFeature(name: string): boolean {
  return session.value?.features.includes(name) ?? false;
}
