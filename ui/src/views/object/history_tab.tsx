// The revisions of an object, the newest first, with the fields that each has changed and who did it.
import type { Revision } from "../../api/object_revisions";
import { timeOfWrite } from "../../api/object_history";
import { clockTime } from "../../model/ages";
import { fieldDiff } from "../../model/field_diff";
import { writerOf } from "../../model/managed_fields";
import { isSecretField } from "../../model/secrets";
import { FieldChanges } from "../../parts/field_changes";
import { Empty } from "../../parts/states";
import { timeOfRevision } from "../../recording";

const VERBS = { ADDED: "created", MODIFIED: "updated", DELETED: "deleted" };

export function HistoryTab({ revisions, isHidden }: { revisions: Revision[]; isHidden: boolean }) {
  if (revisions.length === 0) {
    return (
      <Empty title="No revision is left.">
        The server forgets old revisions after some minutes (compaction). New ones appear here.
      </Empty>
    );
  }
  const entries = revisions.map((revision, index) => {
    const before = revision.type === "ADDED" ? undefined : revisions[index - 1]?.object;
    const version = revision.object.metadata.resourceVersion;
    return {
      version,
      verb: VERBS[revision.type],
      isFirst: revision.type !== "ADDED" && before === undefined,
      time: timeOfRevision(Number(version)) ?? timeOfWrite(revision.object),
      writer: revision.type === "DELETED" ? null : writerOf(before, revision.object),
      changes: before && revision.type === "MODIFIED" ? fieldDiff(before, revision.object) : [],
    };
  });
  return (
    <ol class="history">
      {entries.reverse().map((entry) => (
        <li key={`${entry.version} ${entry.verb}`}>
          <h2>
            <span class={`verb ${entry.verb}`}>{entry.verb}</span>
            {entry.writer && (
              <>
                {" by "}
                <strong>{entry.writer.manager}</strong>
                {entry.writer.subresource && ` (${entry.writer.subresource})`}
              </>
            )}
            <span class="hint">
              {" "}
              revision {entry.version}, {clockTime(entry.time)} UTC
            </span>
          </h2>
          {entry.isFirst && <p class="hint">The oldest revision that the server still has.</p>}
          {entry.verb === "updated" && !entry.isFirst && entry.changes.length === 0 && (
            <p class="hint">Only owners of fields have changed.</p>
          )}
          <FieldChanges changes={entry.changes} {...(isHidden ? { isHidden: isSecretField } : {})} />
        </li>
      ))}
    </ol>
  );
}
