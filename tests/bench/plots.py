"""Line charts as SVG images, without a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WIDTH, HEIGHT, LEFT, BOTTOM = 640, 320, 60, 40
COLOURS = ("#326ce5", "#d62728", "#2ca02c", "#9467bd")


def line_chart(
    title: str,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    *,
    unit: str = "",
    shaded: tuple[float, float] | None = None,
) -> str:
    """Return an image of lines by name, each a sequence of seconds and values.

    unit    follows the numbers of the vertical axis
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
        _label(LEFT - 8, 26, "end", f"{top:,.0f}{unit}"),
        _label(LEFT - 8, HEIGHT - BOTTOM, "end", "0"),
        _label(WIDTH - 20, HEIGHT - BOTTOM + 18, "end", f"{seconds:.0f} s"),
        _label(WIDTH / 2, HEIGHT - 8, "middle", title),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _label(x: float, y: float, anchor: str, text: str, colour: str = "#333") -> str:
    style = f'font-family="sans-serif" font-size="12" fill="{colour}"'
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" {style}>{text}</text>'
