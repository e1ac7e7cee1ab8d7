"""Line charts and bar charts as SVG images, without a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, LEFT, BOTTOM = 640, 320, 60, 40
COLOURS = ("#326ce5", "#d62728", "#2ca02c", "#9467bd")


def line_chart(
    title: str,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    *,
    unit: str = "",
    across: str = " s",
    shaded: tuple[float, float] | None = None,
) -> str:
    """Return an image of lines by name, each a sequence of seconds (or what `across` says) and
    values.

    unit    follows the numbers of the vertical axis
    across  follows the numbers of the horizontal axis
    shaded  the seconds between which the background is grey
    """
    seconds = max(second for line in lines.values() for second, _ in line)
    top = max(value for line in lines.values() for _, value in line)

    def x_of(second: float) -> float:
        return LEFT + second / seconds * (WIDTH - LEFT - 20)

    def at(second: float, value: float) -> str:
        return f"{x_of(second):.1f},{HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - 20):.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    if shaded is not None:
        begin, end = map(x_of, shaded)
        parts.append(
            f'<rect x="{begin:.1f}" y="20" width="{end - begin:.1f}" '
            f'height="{HEIGHT - BOTTOM - 20}" fill="#eee"/>'
        )
    axes = " ".join([at(0, top), at(0, 0), at(seconds, 0)])
    parts.append(f'<polyline points="{axes}" fill="none" stroke="#888"/>')
    for (name, line), colour in zip(lines.items(), COLOURS, strict=False):
        points = " ".join(at(*each) for each in line)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        if len(lines) > 1:
            y = 34 + 16 * list(lines).index(name)
            parts.append(_label(WIDTH - 24, y, "end", name, colour))
    parts += [
        _label(LEFT - 8, 26, "end", f"{top:,.3g}{unit}" if top < 10 else f"{top:,.0f}{unit}"),
        _label(LEFT - 8, HEIGHT - BOTTOM, "end", "0"),
        _label(WIDTH - 20, HEIGHT - BOTTOM + 18, "end", f"{seconds:,.0f}{across}"),
        _label(WIDTH / 2, HEIGHT - 8, "middle", title),
        "</svg>\n",
    ]
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar from 0 to `middle`, with a line from `low` to `high`."""

    name: str
    low: float
    middle: float
    high: float


def bar_chart(title: str, bars: Sequence[Bar], *, mark: float) -> str:
    """Return an image of bars below each other, with a vertical line at `mark`."""
    names, row = 310, 18
    height = 20 + row * len(bars) + BOTTOM
    top = max(mark, *(bar.high for bar in bars)) * 1.05

    def x_of(value: float) -> float:
        return names + value / top * (WIDTH - names - 50)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for index, bar in enumerate(bars):
        y = 14 + row * index
        low, middle, high = x_of(bar.low), x_of(bar.middle), x_of(bar.high)
        parts += [
            _label(names - 6, y + 11, "end", bar.name),
            f'<rect x="{names}" y="{y}" width="{middle - names:.1f}" height="{row - 5}" '
            f'fill="{COLOURS[0]}"/>',
            f'<path d="M{low:.1f} {y + 6.5}H{high:.1f}M{low:.1f} {y + 3}v7M{high:.1f} {y + 3}v7" '
            'stroke="#222" fill="none"/>',
            _label(max(middle, high) + 6, y + 11, "start", f"{bar.middle:.2f}"),
        ]
    bottom = 14 + row * len(bars)
    parts += [
        f'<path d="M{x_of(mark):.1f} 10V{bottom}" stroke="#888" stroke-dasharray="4 3"/>',
        _label(x_of(mark), bottom + 14, "middle", f"{mark:g}"),
        _label(WIDTH / 2, height - 8, "middle", title),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _label(x: float, y: float, anchor: str, text: str, colour: str = "#333") -> str:
    style = f'font-family="sans-serif" font-size="12" fill="{colour}"'
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" {style}>{escape(text)}</text>'
