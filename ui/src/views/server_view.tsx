// The server: rates, latencies, watches, what it stores, loop lag, memory and queues as live plots.
import { useEffect, useState } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import { request, send } from "../api/client";
import { quantile, readMetrics, type Sample, sumBy, total } from "../api/metrics";
import { Plot, type Series } from "../parts/plot";
import { ErrorBox, Loading } from "../parts/states";

const PERIOD_MILLISECONDS = 2000;
const MAX_POINTS = 300;
const MAX_SERIES = 6;

type Metrics = Map<string, Sample[]>;
/** The values of a plot's series at one time, by their names. */
type Point = Map<string, number | null>;

interface Reading {
  time: number;
  metrics: Metrics;
  lag: Point;
}

interface PlotDefinition {
  id: string;
  title: string;
  format: (value: number) => string;
  point: (before: Reading, now: Reading) => Point;
}

const rate = (family: string, label: string, accept?: (sample: Sample) => boolean) => (before: Reading, now: Reading) => {
  const earlier = sumBy(before.metrics.get(family), label, accept);
  const seconds = now.time - before.time;
  const point: Point = new Map();
  for (const [name, value] of sumBy(now.metrics.get(family), label, accept)) {
    point.set(name || "other", Math.max(0, value - (earlier.get(name) ?? 0)) / seconds);
  }
  return point;
};

const latency = (before: Reading, now: Reading) => {
  const family = "apiserver_request_duration_seconds_bucket";
  // Profiles and scrapes take as long as they are asked to: only requests for resources count.
  const isShort = ({ labels }: Sample) => labels.resource !== "" && labels.verb !== "WATCH" && labels.verb !== "CONNECT";
  const [earlier, later] = [before, now].map((reading) => sumBy(reading.metrics.get(family), "le", isShort));
  return new Map([0.5, 0.9, 0.99].map((q) => [`p${q * 100}`, quantile(q, earlier!, later!)]));
};

const sums = (entries: [name: string, family: string][]) => (_: Reading, now: Reading) =>
  new Map(entries.map(([name, family]) => [name, total(now.metrics.get(family))]));

const by = (family: string, label: string) => (_: Reading, now: Reading) => sumBy(now.metrics.get(family), label) as Point;

const PLOTS: PlotDefinition[] = [
  { id: "requests", title: "Requests per second, by verb", format: perSecond, point: rate("apiserver_request_total", "verb") },
  {
    id: "errors",
    title: "Errors per second, by status",
    format: perSecond,
    point: rate("apiserver_request_total", "code", (sample) => Number(sample.labels.code) >= 400),
  },
  { id: "latency", title: "Latency of requests for resources", format: seconds, point: latency },
  { id: "watches", title: "Open watches and streams", format: count, point: by("apiserver_longrunning_requests", "resource") },
  { id: "events", title: "Watch events per second", format: perSecond, point: rate("apiserver_watch_events_total", "resource") },
  { id: "objects", title: "Stored objects, by resource", format: count, point: by("apiserver_resource_objects", "resource") },
  { id: "lag", title: "Lag of the event loop", format: seconds, point: (_, now) => now.lag },
  {
    id: "memory",
    title: "Memory",
    format: bytes,
    point: sums([["resident", "process_resident_memory_bytes"]]),
  },
  {
    id: "cpu",
    title: "CPU seconds per second",
    format: perSecond,
    point: (before, now) =>
      new Map([
        [
          "cpu",
          (total(now.metrics.get("process_cpu_seconds_total")) -
            total(before.metrics.get("process_cpu_seconds_total"))) /
            (now.time - before.time),
        ],
      ]),
  },
  {
    id: "executing",
    title: "Requests that execute, by priority level",
    format: count,
    point: by("apiserver_flowcontrol_current_executing_requests", "priority_level"),
  },
  {
    id: "queues",
    title: "Requests that wait in fair queues, by priority level",
    format: count,
    point: by("apiserver_flowcontrol_current_inqueue_requests", "priority_level"),
  },
  { id: "workqueues", title: "Items in workqueues of controllers", format: count, point: by("workqueue_depth", "name") },
];

interface History {
  times: number[];
  points: Record<string, Point[]>;
}

export function ServerView() {
  const [history, setHistory] = useState<History>({ times: [], points: {} });
  const [error, setError] = useState<unknown>(null);
  const [version, setVersion] = useState("");
  useEffect(() => {
    const abort = new AbortController();
    let before: Reading | null = null;
    let timer = 0;
    request("/version", { signal: abort.signal }).then(
      (answer) => setVersion(answer.gitVersion as string),
      () => setVersion(""),
    );
    const read = async () => {
      try {
        const [metrics, lag] = await Promise.all([readMetrics(abort.signal), readLag(abort.signal)]);
        const now: Reading = { time: Date.now() / 1000, metrics, lag };
        const earlier = before;
        if (earlier) setHistory((old) => extended(old, earlier, now));
        before = now;
        setError(null);
      } catch (problem) {
        if (abort.signal.aborted) return;
        before = null; // counters of a server that has started again begin at 0
        setError(problem);
      }
      timer = window.setTimeout(() => void read(), PERIOD_MILLISECONDS - 1000);
    };
    void read();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, []);
  return (
    <section class="view scrolls" aria-labelledby="view-title">
      <header class="view-head">
        <h1 id="view-title">Server</h1>
        <span class="hint">{version}</span>
        <span class={`live ${error === null && history.times.length ? "on" : ""}`} role="status">
          {error === null ? "live" : "not connected"}
        </span>
      </header>
      {error !== null && <ErrorBox error={error} title="The metrics cannot be read" />}
      {history.times.length === 0 && error === null && <Loading what="metrics" />}
      {history.times.length > 0 && (
        <div class="plots">
          {PLOTS.map((plot) => (
            <Plot
              key={plot.id}
              title={plot.title}
              times={history.times}
              series={seriesOf(history.points[plot.id] ?? [])}
              format={plot.format}
            />
          ))}
        </div>
      )}
    </section>
  );
}

/** Measure the lag for a second; a user without the right to it sees no lag. */
async function readLag(signal: AbortSignal): Promise<Point> {
  try {
    const response = await send("/debug/pprof/looplag", { query: { seconds: 1 }, accept: "text/plain", signal });
    const lines = [...(await response.text()).matchAll(/(?:<= (\S+) ms|(any))\s+(\d+)/g)];
    const counts = lines.map(([, bound, , number]) => [bound ? Number(bound) / 1000 : Infinity, Number(number)] as const);
    const all = counts.at(-1)?.[1] ?? 0;
    const within = (part: number) => counts.find(([, number]) => number >= part * all)?.[0] ?? null;
    return new Map([
      ["p50", within(0.5)],
      ["p99", within(0.99)],
    ]);
  } catch (error) {
    if (signal.aborted) throw error;
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return new Map();
  }
}

function extended(history: History, before: Reading, now: Reading): History {
  const points = Object.fromEntries(
    PLOTS.map((plot) => [plot.id, [...(history.points[plot.id] ?? []), plot.point(before, now)].slice(-MAX_POINTS)]),
  );
  return { times: [...history.times, now.time].slice(-MAX_POINTS), points };
}

/** The series with the largest values; the others are left out. */
function seriesOf(points: Point[]): Series[] {
  const peaks = new Map<string, number>();
  for (const point of points) {
    for (const [name, value] of point) peaks.set(name, Math.max(peaks.get(name) ?? 0, value ?? 0));
  }
  const names = [...peaks]
    .filter(([name, peak]) => peak > 0 || /^p\d|^resident$|^cpu$/.test(name))
    .sort(([, a], [, b]) => b - a)
    .slice(0, MAX_SERIES)
    .map(([name]) => name);
  return names.sort().map((name) => ({ name: name || "other", values: points.map((point) => point.get(name) ?? null) }));
}

function count(value: number): string {
  return Math.abs(value) >= 10_000 ? `${(value / 1000).toFixed(0)}k` : String(Math.round(value * 10) / 10);
}

function perSecond(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2);
}

function seconds(value: number): string {
  if (value >= 1) return `${value.toFixed(2)} s`;
  if (value >= 0.001) return `${(value * 1000).toFixed(value >= 0.1 ? 0 : 1)} ms`;
  return `${(value * 1e6).toFixed(0)} µs`;
}

function bytes(value: number): string {
  return value >= 2 ** 30 ? `${(value / 2 ** 30).toFixed(1)} GiB` : `${(value / 2 ** 20).toFixed(0)} MiB`;
}
