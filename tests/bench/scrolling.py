"""How smoothly 10,000 rows of the page at /ui scroll.

    python -m tests.bench.scrolling [--rows 10000]

A headless Chromium scrolls the table of ConfigMaps from the first row to the last, some screens in
each frame, as a person who drags the scroll bar does, and then slowly, three rows a frame. Printed
are the time between frames, as `requestAnimationFrame` sees it, and the CPU time of the page's main
thread in each frame, which other programs on the machine change less. A frame at 60 Hz has 16.7 ms.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from playwright.sync_api import CDPSession, Page, expect, sync_playwright

from kapiserver.testing import TestServer
from tests.ui.conftest import CHROMIUM, CONFIG_MAPS, Api, show, sign_in_link

FRAMES = 600
SECONDS = 120
_SCROLL = """async ([frames, pixels]) => {
  const grid = document.querySelector(".grid");
  const frame = () => new Promise(requestAnimationFrame);
  grid.scrollTop = 0;
  for (let index = 0; index < 30; index++) await frame();
  const times = [];
  let last = await frame();
  let step = pixels;
  for (let index = 0; index < frames; index++) {
    const end = grid.scrollHeight - grid.clientHeight;
    if (grid.scrollTop + step > end || grid.scrollTop + step < 0) step = -step;
    grid.scrollTop += step;
    const now = await frame();
    times.push(now - last);
    last = now;
  }
  return times;
}"""


def main() -> None:
    """Print a table of the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    rows = parser.parse_args().rows
    with TestServer(enable_ui=True) as server, Api(server) as api, sync_playwright() as playwright:
        for index in range(rows):
            api.create(CONFIG_MAPS, {"metadata": {"name": f"row-{index:05}"}, "data": {"a": "b"}})
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(ignore_https_errors=True).new_page()
        page.goto(sign_in_link(server))
        page.wait_for_selector("nav")
        show(page, "#/kinds/-/configmaps?namespace=default")
        text = f"{rows + 1} objects"
        expect(page.get_by_text(text, exact=True)).to_be_visible(timeout=SECONDS * 1000)
        devtools = page.context.new_cdp_session(page)
        devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
        print("| scrolling | frames | ms, p50 / p95 / greatest | over 33.4 ms | CPU, ms |")
        print("| --- | --- | --- | --- | --- |")
        for name, pixels in (("slowly", 100), ("by screens", 2000)):
            print(_measured(page, devtools, name, pixels))
        browser.close()


def _measured(page: Page, devtools: CDPSession, name: str, pixels: int) -> str:
    before = _cpu_seconds(devtools)
    times: list[float] = page.evaluate(_SCROLL, [FRAMES, pixels])
    cpu = (_cpu_seconds(devtools) - before) / FRAMES
    cuts = statistics.quantiles(times, n=20)
    late = sum(each > 33.4 for each in times)
    spread = f"{cuts[9]:.1f} / {cuts[18]:.1f} / {max(times):.1f}"
    return f"| {name} | {FRAMES} | {spread} | {late} | {cpu * 1000:.1f} |"


def _cpu_seconds(devtools: CDPSession) -> float:
    """Return the CPU time of the tasks of the main thread."""
    metrics: list[dict[str, Any]] = devtools.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


if __name__ == "__main__":
    main()
