// One object in tabs.
import { useState } from "preact/hooks";
import { request } from "../api/client";
import { findKind, type Kind, kinds, pathOf } from "../api/discovery";
import { useObject } from "../api/object_revisions";
import { age } from "../model/ages";
import { hideSecret, isSecret } from "../model/secrets";
import { Dialog } from "../parts/dialog";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { Tabs } from "../parts/tabs";
import { at } from "../recording";
import { go, objectHref, tableHref } from "../route";
import { EventsTab } from "./object/events_tab";
import { FieldsTab } from "./object/fields_tab";
import { HistoryTab } from "./object/history_tab";
import { OwnersTab } from "./object/owners_tab";
import { RelatedTab } from "./object/related_tab";
import { YamlTab } from "./object/yaml_tab";

const TABS = [
  { id: "yaml", title: "YAML" },
  { id: "history", title: "History" },
  { id: "fields", title: "Field owners" },
  { id: "owners", title: "Owner tree" },
  { id: "events", title: "Events" },
  { id: "related", title: "Related" },
];

interface Place {
  group: string;
  resource: string;
  namespace: string;
  name: string;
  tab: string;
}

export function ObjectView(place: Place) {
  const kind = findKind(place.group, place.resource);
  if (!kind) {
    if (kinds.value.length === 0) return <Loading what="kinds" />;
    return <Empty title={`The server has no ${place.resource}${place.group && ` of ${place.group}`}.`} />;
  }
  return <OneObject key={`${place.group}/${place.resource}/${place.namespace}/${place.name}`} kind={kind} place={place} />;
}

function OneObject({ kind, place }: { kind: Kind; place: Place }) {
  const { namespace, name } = place;
  const { object, revisions, isLoading, error } = useObject(kind, namespace, name, at.value);
  const [isRevealed, setRevealed] = useState(false);
  const [isDeleting, setDeleting] = useState(false);
  const tab = TABS.some(({ id }) => id === place.tab) ? place.tab : "yaml";
  // A deleted object still has a history.
  const known = object ?? revisions.at(-1)?.object ?? null;
  const hides = known !== null && isSecret(known) && !isRevealed;
  const shown = known && hides ? hideSecret(known) : known;
  return (
    <section class="view" aria-labelledby="view-title">
      <header class="view-head">
        <div>
          <p class="crumbs">
            <a href={tableHref(kind)}>{kind.kind}</a>
            {namespace && (
              <>
                {" / "}
                <a href={tableHref(kind, { namespace })}>{namespace}</a>
              </>
            )}
          </p>
          <h1 id="view-title">{name}</h1>
        </div>
        {known && <Badges kind={kind} object={known} isGone={object === null} />}
        <span class="spring" />
        {known && isSecret(known) && (
          <button type="button" aria-pressed={isRevealed} onClick={() => setRevealed(!isRevealed)}>
            {isRevealed ? "Hide values" : "Show values"}
          </button>
        )}
        {object && at.value === null && kind.verbs.includes("delete") && (
          <button type="button" class="danger" onClick={() => setDeleting(true)}>
            Delete…
          </button>
        )}
      </header>
      {error !== null && !known && <ErrorBox error={error} />}
      {!shown && error === null && (isLoading ? <Loading what={name} /> : <Missing />)}
      {shown && known && (
        <Tabs
          label={`Views of ${name}`}
          tabs={TABS}
          selected={tab}
          onSelect={(id) => go(objectHref(kind, namespace, name, id))}
        >
          {tab === "yaml" && <YamlTab kind={kind} object={shown} isHidden={hides} isGone={object === null} />}
          {tab === "history" && <HistoryTab revisions={revisions} isHidden={hides} />}
          {tab === "fields" && <FieldsTab object={shown} />}
          {tab === "owners" && <OwnersTab kind={kind} object={known} />}
          {tab === "events" && <EventsTab object={known} />}
          {tab === "related" && <RelatedTab object={known} />}
        </Tabs>
      )}
      {isDeleting && <DeleteDialog kind={kind} place={place} onClose={() => setDeleting(false)} />}
    </section>
  );
}

function Missing() {
  return (
    <Empty title="This object does not exist.">
      {at.value === null ? "It may have been deleted, or not been created yet." : "Not at this time of the recording."}
    </Empty>
  );
}

function Badges({ kind, object, isGone }: { kind: Kind; object: any; isGone: boolean }) {
  const { metadata } = object;
  const state = isGone ? "deleted" : metadata.deletionTimestamp ? "is being deleted" : "";
  return (
    <ul class="badges">
      <li>{kind.group ? `${kind.group}/${kind.version}` : kind.version}</li>
      <li title={metadata.creationTimestamp}>
        {at.value === null ? `${age(metadata.creationTimestamp)} old` : metadata.creationTimestamp}
      </li>
      <li>revision {metadata.resourceVersion}</li>
      {state && <li class="bad">{state}</li>}
    </ul>
  );
}

function DeleteDialog({ kind, place, onClose }: { kind: Kind; place: Place; onClose: () => void }) {
  const [error, setError] = useState<unknown>(null);
  const [policy, setPolicy] = useState("Background");
  const remove = async () => {
    try {
      await request(pathOf(kind, place.namespace, place.name), {
        method: "DELETE",
        query: { propagationPolicy: policy },
      });
      onClose();
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <Dialog title={`Delete ${kind.kind} ${place.name}?`} onClose={onClose}>
      <label class="filter">
        <span>Dependents</span>
        <select value={policy} onChange={(event) => setPolicy(event.currentTarget.value)}>
          <option value="Background">delete them afterwards (Background)</option>
          <option value="Foreground">delete them first (Foreground)</option>
          <option value="Orphan">leave them (Orphan)</option>
        </select>
      </label>
      {error !== null && <ErrorBox error={error} />}
      <div class="actions">
        <button type="button" class="danger" onClick={() => void remove()}>
          Delete
        </button>
        <button type="button" onClick={onClose}>
          Cancel
        </button>
      </div>
    </Dialog>
  );
}
