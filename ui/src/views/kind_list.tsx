// The kinds by group, from discovery.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Kind, kinds } from "../api/discovery";
import { route, tableHref } from "../route";

export function KindList() {
  const [filter, setFilter] = useState("");
  const words = filter.trim().toLowerCase();
  const groups = new Map<string, Kind[]>();
  for (const kind of kinds.value) {
    const text = `${kind.kind} ${kind.resource} ${kind.shortNames.join(" ")} ${kind.group}`.toLowerCase();
    if (!text.includes(words)) continue;
    groups.set(kind.group, [...(groups.get(kind.group) ?? []), kind]);
  }
  const isCustom = (members: Kind[]) => members[0]!.isCustom;
  const ordered = [...groups].sort(([a, left], [b, right]) => {
    return Number(isCustom(right)) - Number(isCustom(left)) || rank(a) - rank(b) || a.localeCompare(b);
  });
  const [, group, resource] = ["kinds", "objects"].includes(route.value.parts[0] ?? "") ? route.value.parts : [];
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }, [group, resource]);
  return (
    <div class="kind-list" ref={list}>
      <input
        type="search"
        placeholder="Find a kind"
        aria-label="Find a kind"
        value={filter}
        onInput={(event) => setFilter(event.currentTarget.value)}
      />
      {ordered.map(([name, members]) => (
        <details key={name} open>
          <summary>
            {name || "core"}
            <span class="count">{members.length}</span>
          </summary>
          <ul>
            {[...members]
              .sort((a, b) => a.kind.localeCompare(b.kind))
              .map((kind) => {
                const isCurrent = resource === kind.resource && group === (kind.group || "-");
                return (
                  <li key={kind.resource}>
                    <a href={tableHref(kind)} aria-current={isCurrent ? "page" : undefined} title={kind.resource}>
                      {kind.kind}
                    </a>
                  </li>
                );
              })}
          </ul>
        </details>
      ))}
      {ordered.length === 0 && <p class="hint">No kind has this name.</p>}
    </div>
  );
}

const FIRST = ["", "apps", "batch", "networking.k8s.io", "rbac.authorization.k8s.io", "storage.k8s.io"];

function rank(group: string): number {
  const index = FIRST.indexOf(group);
  return index < 0 ? FIRST.length : index;
}
