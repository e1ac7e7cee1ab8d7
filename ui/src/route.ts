// The place that the page shows, which the fragment of the URL holds.
import { signal } from "@preact/signals";

export interface Route {
  /** `/objects/apps/deployments/default/web/history` in parts. */
  parts: string[];
  query: URLSearchParams;
}

export const route = signal<Route>(parse());

window.addEventListener("hashchange", () => {
  route.value = parse();
});

function parse(): Route {
  const [path = "", query = ""] = location.hash.slice(1).split("?");
  return { parts: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The fragment of a place; empty values of the query are left out. */
export function hrefOf(parts: string[], query: Record<string, string> = {}): string {
  const pairs = Object.entries(query).filter(([, value]) => value);
  const text = new URLSearchParams(pairs).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(href: string): void {
  location.hash = href;
}

/** Show the same place with another query, without an entry in the browser's history. */
export function replaceQuery(query: Record<string, string>): void {
  const href = hrefOf(route.value.parts, query);
  history.replaceState(null, "", href);
  route.value = parse();
}

/** "-" stands for the group of core and for no namespace. */
export function objectHref(
  kind: { group: string; resource: string },
  namespace: string | undefined,
  name: string,
  tab = "",
): string {
  const parts = ["objects", kind.group || "-", kind.resource, namespace || "-", name];
  return hrefOf(tab ? [...parts, tab] : parts);
}

export function tableHref(kind: { group: string; resource: string }, query = {}): string {
  return hrefOf(["kinds", kind.group || "-", kind.resource], query);
}
