// Simulated nodes and their pods as a map: a pod fails, a node stops, the clock moves.
import { useEffect, useState } from "preact/hooks";
import { type KubeObject, request } from "../api/client";
import { type ClockState, readClock, setClock } from "../api/clock";
import { findKind, type Kind, pathOf } from "../api/discovery";
import { useObjects } from "../api/live_objects";
import { hasFeature } from "../api/session";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { objectHref } from "../route";

const PREFIX = "simulation.kapiserver.dev/";
const STOPPED = `${PREFIX}stopped`;
const FATE = [`${PREFIX}exit-code`, `${PREFIX}run-seconds`];

type Selection = { kind: "pod" | "node"; uid: string } | null;

export function SimulationView() {
  const [nodes, pods] = [findKind("", "nodes"), findKind("", "pods")];
  if (!nodes || !pods) return <Loading what="kinds" />;
  return <SimulationMap nodes={nodes} pods={pods} />;
}

function SimulationMap({ nodes, pods }: { nodes: Kind; pods: Kind }) {
  const allNodes = useObjects(pathOf(nodes));
  const allPods = useObjects(pathOf(pods));
  const [selection, setSelection] = useState<Selection>(null);
  const [error, setError] = useState<unknown>(null);
  const byNode = new Map<string, KubeObject[]>();
  for (const pod of [...allPods.items].sort((a, b) => nameOf(a).localeCompare(nameOf(b)))) {
    const node = pod.spec?.nodeName ?? "";
    byNode.set(node, [...(byNode.get(node) ?? []), pod]);
  }
  const sorted = [...allNodes.items].sort((a, b) =>
    a.metadata.name.localeCompare(b.metadata.name, undefined, { numeric: true }),
  );
  const annotate = async (kind: Kind, object: KubeObject, annotations: Record<string, string | null>) => {
    try {
      await request(pathOf(kind, object.metadata.namespace, object.metadata.name), {
        method: "PATCH",
        query: { fieldManager: "kapiserver-ui" },
        contentType: "application/merge-patch+json",
        body: JSON.stringify({ metadata: { annotations } }),
      });
      setError(null);
    } catch (problem) {
      setError(problem);
    }
  };
  const problem = error ?? allNodes.error ?? allPods.error;
  const isSelected = (kind: "pod" | "node", object: KubeObject) =>
    selection?.kind === kind && selection.uid === object.metadata.uid;
  const toggle = (kind: "pod" | "node", object: KubeObject) =>
    setSelection(isSelected(kind, object) ? null : { kind, uid: object.metadata.uid });
  const selectedPod = selection?.kind === "pod" ? allPods.items.find((pod) => pod.metadata.uid === selection.uid) : undefined;
  const selectedNode = selection?.kind === "node" ? allNodes.items.find((node) => node.metadata.uid === selection.uid) : undefined;
  const unscheduled = byNode.get("") ?? [];
  return (
    <section class="view scrolls" aria-labelledby="view-title">
      <header class="view-head">
        <h1 id="view-title">Simulation</h1>
        <span class="hint">
          {sorted.length} nodes, {allPods.items.length} pods
        </span>
        <span class="spring" />
        <Legend />
      </header>
      {hasFeature("clock") ? (
        <Clock />
      ) : (
        <p class="note">The clock of this server is that of the machine. A test server has a clock that moves.</p>
      )}
      {problem !== null && <ErrorBox error={problem} />}
      {selectedPod && (
        <PodActions
          pod={selectedPod}
          kind={pods}
          onFail={() => annotate(pods, selectedPod, { [FATE[0]!]: "1", [FATE[1]!]: "1.0" })}
          onRecover={() => annotate(pods, selectedPod, { [FATE[0]!]: null, [FATE[1]!]: null })}
        />
      )}
      {selectedNode && (
        <NodeActions
          node={selectedNode}
          kind={nodes}
          onStop={() => annotate(nodes, selectedNode, { [STOPPED]: "true" })}
          onStart={() => annotate(nodes, selectedNode, { [STOPPED]: null })}
        />
      )}
      {allNodes.isLoading && problem === null && <Loading what="nodes" />}
      {!allNodes.isLoading && sorted.length === 0 && (
        <Empty title="There are no nodes.">The flag --simulate-nodes makes some.</Empty>
      )}
      <ul class="map" aria-label="Nodes">
        {sorted.map((node) => (
          <li key={node.metadata.uid} class={`node-box ${nodeState(node)}`}>
            <button
              type="button"
              class="node-name"
              aria-pressed={isSelected("node", node)}
              onClick={() => toggle("node", node)}
            >
              {node.metadata.name}
              <span class="hint">{NODE_WORDS[nodeState(node)]}</span>
            </button>
            <PodSquares pods={byNode.get(node.metadata.name) ?? []} isSelected={isSelected} onSelect={toggle} />
          </li>
        ))}
        {unscheduled.length > 0 && (
          <li class="node-box unscheduled">
            <span class="node-name">no node yet</span>
            <PodSquares pods={unscheduled} isSelected={isSelected} onSelect={toggle} />
          </li>
        )}
      </ul>
    </section>
  );
}

function PodSquares({
  pods,
  isSelected,
  onSelect,
}: {
  pods: KubeObject[];
  isSelected: (kind: "pod", pod: KubeObject) => boolean;
  onSelect: (kind: "pod", pod: KubeObject) => void;
}) {
  if (pods.length === 0) return <p class="hint">no pods</p>;
  return (
    <ul class="pods">
      {pods.map((pod) => (
        <li key={pod.metadata.uid}>
          <button
            type="button"
            class={`pod ${podState(pod)}`}
            aria-pressed={isSelected("pod", pod)}
            aria-label={`${nameOf(pod)}: ${podState(pod)}`}
            title={`${nameOf(pod)}: ${podState(pod)}`}
            onClick={() => onSelect("pod", pod)}
          />
        </li>
      ))}
    </ul>
  );
}

function PodActions(props: { pod: KubeObject; kind: Kind; onFail: () => void; onRecover: () => void }) {
  const { pod, kind } = props;
  const hasFate = FATE.some((name) => name in (pod.metadata.annotations ?? {}));
  return (
    <div class="selected" role="group" aria-label="Selected pod">
      <a href={objectHref(kind, pod.metadata.namespace, pod.metadata.name)}>{nameOf(pod)}</a>
      <span class={`pod-state ${podState(pod)}`}>{podState(pod)}</span>
      <span class="hint">{restartsOf(pod)} restarts</span>
      <span class="spring" />
      {hasFate ? (
        <button type="button" onClick={props.onRecover}>
          Let it recover
        </button>
      ) : (
        <button type="button" class="danger" onClick={props.onFail}>
          Fail this pod
        </button>
      )}
    </div>
  );
}

function NodeActions(props: { node: KubeObject; kind: Kind; onStop: () => void; onStart: () => void }) {
  const { node, kind } = props;
  const isStopped = node.metadata.annotations?.[STOPPED] === "true";
  return (
    <div class="selected" role="group" aria-label="Selected node">
      <a href={objectHref(kind, "", node.metadata.name)}>{node.metadata.name}</a>
      <span>{NODE_WORDS[nodeState(node)]}</span>
      <span class="spring" />
      {isStopped ? (
        <button type="button" onClick={props.onStart}>
          Start its kubelet
        </button>
      ) : (
        <button type="button" class="danger" onClick={props.onStop}>
          Stop its kubelet
        </button>
      )}
    </div>
  );
}

const STEPS: [string, number][] = [
  ["1 s", 1],
  ["10 s", 10],
  ["1 min", 60],
  ["10 min", 600],
  ["1 h", 3600],
];

function Clock() {
  const [clock, setState] = useState<ClockState | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const load = () => readClock().then(setState, setError);
  useEffect(() => {
    void load();
    const timer = setInterval(() => void load(), 1000);
    return () => clearInterval(timer);
  }, []);
  const change = async (what: Parameters<typeof setClock>[0]) => {
    setBusy(true);
    await setClock(what).then(setState, setError);
    setBusy(false);
  };
  if (error !== null) return <ErrorBox error={error} title="The clock cannot be read" />;
  if (clock === null) return null;
  const time = new Date(clock.now * 1000);
  const minutes = time.getUTCHours() * 60 + time.getUTCMinutes() + time.getUTCSeconds() / 60;
  const text = `${time.toISOString().slice(0, 10)} ${time.toISOString().slice(11, 19)} UTC`;
  return (
    <div class="clock" role="group" aria-label="Clock of the server">
      <svg viewBox="-50 -50 100 100" width="64" height="64" aria-hidden="true">
        <circle r="46" class="dial" />
        {Array.from({ length: 12 }, (_, hour) => (
          <line key={hour} y1="-42" y2="-37" class="tick" transform={`rotate(${hour * 30})`} />
        ))}
        <line y2="-24" class="hour" transform={`rotate(${minutes / 2})`} />
        <line y2="-36" class="minute" transform={`rotate(${minutes * 6})`} />
      </svg>
      <div>
        <output class="time">{text}</output>
        <span class="hint">{clock.isFrozen ? "the time stands still" : "the time flows"}</span>
      </div>
      <span class="spring" />
      <button type="button" disabled={isBusy} onClick={() => void change({ freeze: !clock.isFrozen })}>
        {clock.isFrozen ? "Let it flow" : "Stop the time"}
      </button>
      {STEPS.map(([name, seconds]) => (
        <button key={name} type="button" disabled={isBusy} onClick={() => void change({ advance: seconds })}>
          +{name}
        </button>
      ))}
    </div>
  );
}

function Legend() {
  return (
    <ul class="legend" aria-label="Colors of pods">
      {["running", "pending", "succeeded", "failed"].map((state) => (
        <li key={state}>
          <span class={`pod ${state}`} aria-hidden="true" /> {state}
        </li>
      ))}
    </ul>
  );
}

const NODE_WORDS: Record<string, string> = {
  ready: "ready",
  stopped: "stopped",
  lost: "not ready",
};

function nodeState(node: KubeObject): string {
  const ready = node.status?.conditions?.find((condition: any) => condition.type === "Ready");
  if (ready?.status !== "True") return "lost";
  return node.metadata.annotations?.[STOPPED] === "true" ? "stopped" : "ready";
}

function podState(pod: KubeObject): string {
  if (pod.metadata.deletionTimestamp) return "terminating";
  const statuses: any[] = pod.status?.containerStatuses ?? [];
  if (statuses.some((status) => status.state?.waiting?.reason?.match(/BackOff|Err/))) return "failed";
  const phase = String(pod.status?.phase ?? "Pending").toLowerCase();
  const isReady = pod.status?.conditions?.some((one: any) => one.type === "Ready" && one.status === "True");
  return phase === "running" && !isReady ? "pending" : phase;
}

function restartsOf(pod: KubeObject): number {
  const statuses: any[] = pod.status?.containerStatuses ?? [];
  return statuses.reduce((sum, status) => sum + (status.restartCount ?? 0), 0);
}

function nameOf(pod: KubeObject): string {
  return `${pod.metadata.namespace}/${pod.metadata.name}`;
}
