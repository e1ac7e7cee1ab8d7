// The metrics of the server in Prometheus' text format, and what plots show of them.
import { send } from "./client";

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

export function parseMetrics(text: string): Map<string, Sample[]> {
  const families = new Map<string, Sample[]>();
  for (const line of text.split("\n")) {
    if (line.startsWith("#")) continue;
    const match = LINE.exec(line);
    if (!match) continue;
    const labels: Record<string, string> = {};
    for (const [, name, value] of (match[2] ?? "").matchAll(LABEL)) {
      labels[name!] = value!.replace(/\\(.)/g, (_, char: string) => (char === "n" ? "\n" : char));
    }
    const sample = { name: match[1]!, labels, value: Number(match[3]) };
    const family = families.get(sample.name);
    if (family) family.push(sample);
    else families.set(sample.name, [sample]);
  }
  return families;
}

/** Read the metrics. Throws ApiError. */
export async function readMetrics(signal: AbortSignal): Promise<Map<string, Sample[]>> {
  const response = await send("/metrics", { accept: "text/plain", signal });
  return parseMetrics(await response.text());
}

/** The sum of a family by the value of a label; samples that `accept` refuses are left out. */
export function sumBy(
  samples: Sample[] | undefined,
  label: string,
  accept: (sample: Sample) => boolean = () => true,
): Map<string, number> {
  const sums = new Map<string, number>();
  for (const sample of samples ?? []) {
    if (!accept(sample)) continue;
    const key = sample.labels[label] ?? "";
    sums.set(key, (sums.get(key) ?? 0) + sample.value);
  }
  return sums;
}

export function total(samples: Sample[] | undefined, accept?: (sample: Sample) => boolean): number {
  let sum = 0;
  for (const value of sumBy(samples, "", accept).values()) sum += value;
  return sum;
}

/** The quantile of a histogram's increase between two readings, in its unit; null if nothing came in
 * between. Buckets are interpolated as histogram_quantile does. */
export function quantile(q: number, before: Map<string, number>, after: Map<string, number>): number | null {
  const buckets = [...after]
    .map(([bound, count]) => [bound === "+Inf" ? Infinity : Number(bound), count - (before.get(bound) ?? 0)] as const)
    .sort(([a], [b]) => a - b);
  const count = buckets.at(-1)?.[1] ?? 0;
  if (count <= 0) return null;
  const rank = q * count;
  const index = buckets.findIndex(([, cumulative]) => cumulative >= rank);
  const [bound, cumulative] = buckets[index]!;
  const [lower, below] = buckets[index - 1] ?? [0, 0];
  if (bound === Infinity) return lower;
  return lower + ((bound - lower) * (rank - below)) / (cumulative - below);
}
