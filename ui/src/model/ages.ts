// Times as Kubernetes' tables show them. Mirrors HumanDuration of k8s.io/apimachinery.

export function age(timestamp: string | undefined, now = Date.now()): string {
  const at = Date.parse(timestamp ?? "");
  return Number.isNaN(at) ? "<unknown>" : duration((now - at) / 1000);
}

function duration(seconds: number): string {
  if (seconds < 0) return "0s";
  const s = Math.floor(seconds);
  const [m, h, d] = [Math.floor(s / 60), Math.floor(s / 3600), Math.floor(s / 86400)];
  if (s < 120) return `${s}s`;
  if (m < 10) return two(m, "m", s % 60, "s");
  if (h < 3) return `${m}m`;
  if (h < 8) return two(h, "h", m % 60, "m");
  if (h < 48) return `${h}h`;
  if (h < 192) return two(d, "d", h % 24, "h");
  if (d < 365 * 2) return `${d}d`;
  if (d < 365 * 8) return two(Math.floor(d / 365), "y", d % 365, "d");
  return `${Math.floor(d / 365)}y`;
}

function two(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small ? `${large}${largeUnit}${small}${smallUnit}` : `${large}${largeUnit}`;
}

/** A time of day with milliseconds if it has some. */
export function clockTime(milliseconds: number): string {
  const text = new Date(milliseconds).toISOString().slice(11, 23);
  return text.endsWith(".000") ? text.slice(0, 8) : text;
}
