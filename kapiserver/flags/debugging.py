"""The flags of profiling and tracing, and the texts of all flags for /flagz."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kapiserver.api.scalar_types import format_duration
from kapiserver.flags.logs import module_levels
from kapiserver.flags.values import DEFAULTS, boolean, positive_seconds, seconds


def add_debugging_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags of profiling and tracing."""
    group.add_argument(
        "--profiling", type=boolean, nargs="?", const=True, metavar="BOOL",
        default=DEFAULTS.profiling,
        help="Serve profiles of CPU and memory, and the stacks of threads and tasks, at "
        "/debug/pprof/, for users with the right to that path. Default: true.",
    )  # fmt: skip
    group.add_argument(
        "--tracing-config-file", type=Path, metavar="FILE",
        help="File with a TracingConfiguration: where to send OpenTelemetry traces, by OTLP over "
        "HTTP, and of how many requests. Needs the extra kapiserver[tracing]. Default: no traces.",
    )  # fmt: skip


def flag_texts(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the name of each flag of the parser that `options.flags` has, and its value as Go
    writes it."""
    for action in options.flags:
        if action.dest in vars(options):
            name = max(action.option_strings, key=len).lstrip("-")
            yield name, _text(action, getattr(options, action.dest))


def _text(action: argparse.Action, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if action.type in (seconds, positive_seconds) and isinstance(value, float):
        return format_duration(round(value * 1e9))
    if action.type is module_levels:
        return ",".join(f"{pattern}={level}" for pattern, level in value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(str, value))}]"
    return str(value)
