// A live plot of a few series over time, by uPlot; a table with the last values is its text.
import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";

export interface Series {
  name: string;
  values: (number | null)[];
}

const COLORS = ["--plot-1", "--plot-2", "--plot-3", "--plot-4", "--plot-5", "--plot-6"];
const HEIGHT = 150;
/** The length of the axis grows with the data. */
const LEAST_SECONDS = 30;
const MOST_SECONDS = 180;

export function Plot({
  title,
  times,
  series,
  format,
}: {
  title: string;
  times: number[];
  series: Series[];
  format: (value: number) => string;
}) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data = useRef<uPlot.AlignedData>([[]]);
  data.current = [times, ...series.map((one) => one.values)];
  const names = series.map((one) => one.name).join("\n");
  const [theme, setTheme] = useState(0);

  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const change = () => setTheme((count) => count + 1);
    dark.addEventListener("change", change);
    return () => dark.removeEventListener("change", change);
  }, []);

  useEffect(() => {
    let isOver = false;
    const element = host.current!;
    void import("uplot").then(({ default: UPlot }) => {
      if (isOver) return;
      plot.current = new UPlot(optionsOf(element, series, format), data.current, element);
    });
    const observer = new ResizeObserver(() => {
      plot.current?.setSize({ width: element.clientWidth, height: HEIGHT });
    });
    observer.observe(element);
    return () => {
      isOver = true;
      observer.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [names, theme]);

  useEffect(() => {
    plot.current?.setData(data.current);
  }, [times]);

  return (
    <figure class="plot">
      <figcaption>{title}</figcaption>
      <div class="canvas" ref={host} aria-hidden="true" />
      {series.length === 0 && <p class="hint">none</p>}
      <dl>
        {series.map((one, index) => (
          <div key={one.name}>
            <dt>
              <span class={`swatch plot-${(index % COLORS.length) + 1}`} aria-hidden="true" />
              {one.name}
            </dt>
            <dd>{lastOf(one.values, format)}</dd>
          </div>
        ))}
      </dl>
    </figure>
  );
}

function lastOf(values: (number | null)[], format: (value: number) => string): string {
  const last = values.findLast((value) => value !== null);
  return last === undefined || last === null ? "–" : format(last);
}

function optionsOf(element: HTMLElement, series: Series[], format: (value: number) => string): uPlot.Options {
  const style = getComputedStyle(element);
  const color = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: color("--muted"),
    grid: { stroke: color("--grid"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { range: (_, min, max) => [Math.max(max - MOST_SECONDS, Math.min(min, max - LEAST_SECONDS)), max] }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      { ...axis, space: 80, size: 26, values: (_, ticks) => ticks.map((tick) => new Date(tick * 1000).toTimeString().slice(0, 8)) },
      { ...axis, size: 62, values: (_, ticks) => ticks.map(format) },
    ],
    series: [
      {},
      ...series.map((one, index) => ({
        label: one.name,
        stroke: color(COLORS[index % COLORS.length]!),
        width: 1.75,
        points: { show: false },
        spanGaps: true,
      })),
    ],
  };
}
