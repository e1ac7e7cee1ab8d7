"""Measures how late the event loop calls what is due: what blocks it delays every request."""

from __future__ import annotations

import asyncio

from kapiserver.metrics import Observations

INTERVAL_SECONDS = 0.01
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


async def measure_loop_lag(seconds: float) -> Observations:
    """Return a histogram of how many seconds late the running loop was, over that time."""
    lag = Observations(BOUNDS)
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while (now := loop.time()) < end:
        await asyncio.sleep(INTERVAL_SECONDS)
        lag.observe(max(0.0, loop.time() - now - INTERVAL_SECONDS))
    return lag


def loop_lag_text(lag: Observations) -> str:
    """Return a histogram as text: for each bound, the number of observations up to it."""
    lines = [f"event loop lag: {sum(lag.counts)} observations, {lag.total:.6f} seconds in total"]
    total = 0
    for bound, count in zip((*BOUNDS, None), lag.counts, strict=True):
        total += count
        lines.append(f"{'any' if bound is None else f'<= {bound * 1000:g} ms':>12} {total:8}")
    return "\n".join(lines) + "\n"
