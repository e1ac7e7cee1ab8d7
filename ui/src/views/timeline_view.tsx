// What each controller and user did to which object, with arrows of cause.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Kind, kinds } from "../api/discovery";
import { useWrites } from "../api/live_writes";
import { hasFeature } from "../api/session";
import { clockTime } from "../model/ages";
import { isSecret, isSecretField } from "../model/secrets";
import { changesOf, type Mark, type Timeline, timelineOf } from "../model/timeline";
import { FieldChanges } from "../parts/field_changes";
import { Empty, Loading } from "../parts/states";
import { at, recording } from "../recording";
import { objectHref, replaceQuery, route } from "../route";
import { NamespaceSelect } from "./table_view";

const MAX_MARKS = 400;
const STEP = 26;
const LANE = 38;
const HEAD = 26;
const MARGIN = 18;

/** Kinds that are written for their own sake again and again. */
const QUIET = new Set(["events", "leases", "endpoints"]);
const GROUPS = new Set(["", "apps", "batch", "autoscaling", "policy", "networking.k8s.io", "discovery.k8s.io"]);

function isShownAtFirst(kind: Kind): boolean {
  return kind.verbs.includes("watch") && !QUIET.has(kind.resource) && (GROUPS.has(kind.group) || kind.isCustom);
}

export function TimelineView() {
  if (kinds.value.length === 0) return <Loading what="kinds" />;
  return <TimelineOfKinds />;
}

function TimelineOfKinds() {
  const namespace = route.value.query.get("namespace") ?? "";
  const [hidden, setHidden] = useState<Set<string>>(new Set());
  const candidates = useMemo(
    () => kinds.value.filter((kind) => isShownAtFirst(kind) && (kind.namespaced || !namespace)),
    [kinds.value, namespace],
  );
  const shown = candidates.filter((kind) => !hidden.has(keyOf(kind)));
  const { writes, waiting } = useWrites(shown, namespace);
  const revision = at.value;
  const timeline = useMemo(() => {
    const until = revision === null ? writes : writes.filter((write) => write.revision <= revision);
    const last = Math.max(0, ...until.map((write) => write.time));
    const requests = (recording.value?.requests ?? []).filter(
      (request) => Date.parse(request.time) <= last && (!namespace || request.namespace === namespace),
    );
    return timelineOf(until, requests, MAX_MARKS);
  }, [writes, revision, namespace, recording.value]);
  const [selected, setSelected] = useState("");
  const mark = timeline.marks.find((one) => one.id === selected);
  return (
    <section class="view" aria-labelledby="view-title">
      <header class="view-head">
        <h1 id="view-title">Timeline</h1>
        <span class="hint">
          {timeline.marks.length} {hasFeature("recording") ? "writes and requests" : "writes"} by {timeline.actors.length} actors
        </span>
      </header>
      <div class="filters" role="search" aria-label="Filters">
        <NamespaceSelect value={namespace} onChange={(value) => replaceQuery({ namespace: value })} />
        <KindChoice kinds={candidates} hidden={hidden} onChange={setHidden} />
        <ul class="legend" aria-label="Marks and arrows">
          <li>
            <svg width="14" height="14" aria-hidden="true">
              <circle class="mark created" cx="7" cy="7" r="5" />
            </svg>{" "}
            created
          </li>
          <li>
            <svg width="14" height="14" aria-hidden="true">
              <circle class="mark updated" cx="7" cy="7" r="5" />
            </svg>{" "}
            updated
          </li>
          <li>
            <svg width="14" height="14" aria-hidden="true">
              <path class="mark deleted" d="M3 3 11 11M11 3 3 11" />
            </svg>{" "}
            deleted
          </li>
          {hasFeature("recording") && (
            <li>
              <svg width="14" height="14" aria-hidden="true">
                <path class="mark request" d="M7 1 13 7 7 13 1 7Z" />
              </svg>{" "}
              request of the test
            </li>
          )}
          <li class="arrow-owner">→ owner</li>
          <li class="arrow-manager">→ reaction</li>
        </ul>
      </div>
      {timeline.marks.length === 0 && waiting > 0 ? (
        <Loading what={`the history of ${waiting} kinds`} />
      ) : timeline.marks.length === 0 ? (
        <Empty title="No writes yet.">
          The server keeps the writes of the last minutes; new ones appear here as they come.
        </Empty>
      ) : (
        <Lanes timeline={timeline} isBusy={waiting > 0} selected={selected} onSelect={setSelected} />
      )}
      <MarkDetails mark={mark} timeline={timeline} onSelect={setSelected} />
    </section>
  );
}

function KindChoice({
  kinds: candidates,
  hidden,
  onChange,
}: {
  kinds: Kind[];
  hidden: Set<string>;
  onChange: (hidden: Set<string>) => void;
}) {
  return (
    <details class="choice">
      <summary>Kinds ({candidates.filter((kind) => !hidden.has(keyOf(kind))).length})</summary>
      <ul>
        {candidates.map((kind) => (
          <li key={keyOf(kind)}>
            <label class="check">
              <input
                type="checkbox"
                checked={!hidden.has(keyOf(kind))}
                onChange={(event) => {
                  const next = new Set(hidden);
                  if (event.currentTarget.checked) next.delete(keyOf(kind));
                  else next.add(keyOf(kind));
                  onChange(next);
                }}
              />{" "}
              {kind.kind}
            </label>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Lanes({
  timeline,
  isBusy,
  selected,
  onSelect,
}: {
  timeline: Timeline;
  /** Whether the history of some kinds is still to come. */
  isBusy: boolean;
  selected: string;
  onSelect: (id: string) => void;
}) {
  const { actors, marks } = timeline;
  const scroller = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const width = marks.length * STEP + 2 * MARGIN;
  const height = actors.length * LANE + HEAD;
  const x = (index: number) => MARGIN + index * STEP + STEP / 2;
  const y = (actor: string) => HEAD + actors.indexOf(actor) * LANE + LANE / 2;
  const indexes = new Map(marks.map((mark, index) => [mark.id, index]));
  const active = indexes.has(selected) ? selected : (marks.at(-1)?.id ?? "");

  useEffect(() => {
    const element = scroller.current!;
    if (isAtEnd.current) element.scrollLeft = element.scrollWidth;
  }, [marks.length]);
  useEffect(() => {
    const index = indexes.get(selected);
    if (index === undefined) return;
    isAtEnd.current = false;
    const element = scroller.current!;
    const isInSight = x(index) > element.scrollLeft && x(index) < element.scrollLeft + element.clientWidth;
    if (!isInSight) element.scrollLeft = x(index) - element.clientWidth / 2;
  }, [selected]);

  const move = (event: KeyboardEvent) => {
    const index = indexes.get(active) ?? 0;
    const targets: Record<string, number> = {
      ArrowRight: index + 1,
      ArrowLeft: index - 1,
      Home: 0,
      End: marks.length - 1,
    };
    const target = marks[targets[event.key] ?? -1];
    if (!target) return;
    event.preventDefault();
    onSelect(target.id);
    requestAnimationFrame(() => {
      scroller.current?.querySelector<SVGGElement>(`[data-index="${indexes.get(target.id)}"]`)?.focus();
    });
  };

  return (
    <div class="lanes">
      <ul class="actors" style={{ paddingTop: `${HEAD}px` }} aria-label="Actors">
        {actors.map((actor) => (
          <li key={actor} style={{ height: `${LANE}px` }} title={actor}>
            <span>{actor}</span>
          </li>
        ))}
      </ul>
      <div
        class="lane-scroller"
        ref={scroller}
        onScroll={(event) => {
          const element = event.currentTarget;
          isAtEnd.current = element.scrollLeft + element.clientWidth > element.scrollWidth - 40;
        }}
      >
        <svg width={width} height={height} role="group" aria-label="Writes in their order" aria-busy={isBusy} onKeyDown={move}>
          {actors.map((actor, index) => (
            <rect
              key={actor}
              class={index % 2 ? "lane odd" : "lane"}
              y={HEAD + index * LANE}
              width={width}
              height={LANE}
            />
          ))}
          {ticksOf(marks).map(([index, text]) => (
            <g key={index} class="time" aria-hidden="true">
              <line x1={x(index) - STEP / 2} x2={x(index) - STEP / 2} y1={6} y2={height} />
              <text x={x(index) - STEP / 2 + 5} y={16}>
                {text}
              </text>
            </g>
          ))}
          {marks.flatMap((mark, index) =>
            mark.causes.map((cause) => {
              const from = indexes.get(cause.from);
              if (from === undefined) return null;
              const isLit = mark.id === selected || cause.from === selected;
              return (
                <path
                  key={`${cause.from} ${mark.id} ${cause.why}`}
                  class={`arrow ${cause.why} ${isLit ? "lit" : ""}`}
                  d={arrow(x(from), y(marks[from]!.actor), x(index), y(mark.actor))}
                  aria-hidden="true"
                />
              );
            }),
          )}
          {marks.map((mark, index) => (
            <g
              key={mark.id}
              role="button"
              data-index={index}
              tabindex={mark.id === active ? 0 : -1}
              class={`mark-group ${mark.id === selected ? "selected" : ""}`}
              transform={`translate(${x(index)} ${y(mark.actor)})`}
              aria-label={`${mark.title} ${mark.verb} by ${mark.actor} at ${clockTime(mark.time)}`}
              aria-pressed={mark.id === selected}
              onClick={() => onSelect(mark.id)}
              onKeyDown={(event) => {
                if (event.key !== "Enter" && event.key !== " ") return;
                event.preventDefault();
                onSelect(mark.id);
              }}
            >
              <title>{`${mark.title} ${mark.verb}`}</title>
              <circle class="target" r="12" />
              {mark.request ? (
                <path class="mark request" d="M0-6 6 0 0 6-6 0Z" />
              ) : mark.verb === "deleted" ? (
                <path class="mark deleted" d="M-5-5 5 5M5-5-5 5" />
              ) : (
                <circle class={`mark ${mark.verb}`} r="6" />
              )}
            </g>
          ))}
        </svg>
      </div>
    </div>
  );
}

/** A curve with a head at its end. */
function arrow(x1: number, y1: number, x2: number, y2: number): string {
  const end = x2 - 7;
  const bend = Math.max(10, (end - x1) / 2);
  const lift = y1 === y2 ? -14 : 0;
  return (
    `M${x1 + 6} ${y1}C${x1 + 6 + bend} ${y1 + lift} ${end - bend} ${y2 + lift} ${end} ${y2}` +
    `m-5-3.5 5 3.5-5 3.5`
  );
}

/** The indexes of marks at which a new second begins, with its text, far enough from each other. */
function ticksOf(marks: Mark[]): [number, string][] {
  const ticks: [number, string][] = [];
  let last = -Infinity;
  marks.forEach((mark, index) => {
    const isNew = index === 0 || Math.floor(mark.time / 1000) !== Math.floor(marks[index - 1]!.time / 1000);
    if (isNew && (index - last) * STEP >= 76) {
      ticks.push([index, clockTime(Math.floor(mark.time / 1000) * 1000)]);
      last = index;
    }
  });
  return ticks;
}

function MarkDetails({
  mark,
  timeline,
  onSelect,
}: {
  mark: Mark | undefined;
  timeline: Timeline;
  onSelect: (id: string) => void;
}) {
  if (!mark) {
    return timeline.marks.length ? <p class="mark-details hint">Choose a mark to see what it changed, and why.</p> : null;
  }
  const byId = new Map(timeline.marks.map((one) => [one.id, one]));
  const causes = mark.causes.flatMap((cause) => byId.get(cause.from) ?? []);
  const effects = timeline.marks.filter((one) => one.causes.some((cause) => cause.from === mark.id));
  const { write, request } = mark;
  return (
    <section class="mark-details" aria-label="Chosen mark" aria-live="polite">
      <h2>
        <span class={`verb ${mark.verb}`}>{mark.verb}</span>{" "}
        {write ? (
          <a href={objectHref(write.kind, write.object.metadata.namespace, write.object.metadata.name, "history")}>
            {mark.title}
          </a>
        ) : (
          mark.title
        )}{" "}
        by <strong>{mark.actor}</strong>
        <span class="hint">
          {" "}
          {clockTime(mark.time)} UTC{write && `, revision ${write.revision}`}
          {request && `, status ${request.status}`}
        </span>
      </h2>
      <MarkLinks title="Because of" marks={causes} onSelect={onSelect} />
      <MarkLinks title="Led to" marks={effects} onSelect={onSelect} />
      {write && (
        <FieldChanges changes={changesOf(write)} {...(isSecret(write.object) ? { isHidden: isSecretField } : {})} />
      )}
      {request && <code class="uri">{request.uri}</code>}
    </section>
  );
}

function MarkLinks({ title, marks, onSelect }: { title: string; marks: Mark[]; onSelect: (id: string) => void }) {
  if (marks.length === 0) return null;
  return (
    <p class="mark-links">
      {title}:
      {marks.slice(0, 12).map((mark) => (
        <button key={mark.id} type="button" class="quiet" onClick={() => onSelect(mark.id)}>
          {mark.title} {mark.verb}
        </button>
      ))}
    </p>
  );
}

function keyOf(kind: Kind): string {
  return `${kind.group}/${kind.resource}`;
}
