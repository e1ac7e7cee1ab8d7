// The fields that a write has changed, one line each.
import type { Change } from "../model/field_diff";

const MAX_TEXT = 240;

export function FieldChanges({ changes, isHidden }: { changes: Change[]; isHidden?: (path: string) => boolean }) {
  return (
    <ul class="changes">
      {changes.map((change) => {
        const kind = change.before === undefined ? "added" : change.after === undefined ? "removed" : "changed";
        const hidden = isHidden?.(change.path) ?? false;
        return (
          <li key={change.path} class={kind}>
            <span class="sign" aria-label={kind} role="img">
              {kind === "added" ? "+" : kind === "removed" ? "−" : "~"}
            </span>
            <code class="path">{change.path || "(object)"}</code>
            <span class="values">
              {kind !== "added" && <del>{hidden ? "••••" : text(change.before)}</del>}
              {kind === "changed" && <span aria-hidden="true"> → </span>}
              {kind !== "removed" && <ins>{hidden ? "••••" : text(change.after)}</ins>}
            </span>
          </li>
        );
      })}
    </ul>
  );
}

function text(value: unknown): string {
  const json = JSON.stringify(value) ?? "";
  return json.length > MAX_TEXT ? `${json.slice(0, MAX_TEXT)}…` : json;
}
