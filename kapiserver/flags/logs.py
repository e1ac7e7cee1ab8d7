"""The flags of the log."""

from __future__ import annotations

import argparse

from kapiserver.apiserver.serving.process.logs import FORMATS
from kapiserver.flags.values import DEFAULTS, count, names

REQUESTS_LEVEL = 3
DEBUG_LEVEL = 6
"""Levels of klog from which requests, and debug messages too, are logged."""


def add_logging_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say what is logged, and how."""
    parser.add_argument(
        "-v", "--verbose", action="count", default=0,
        help="Log each request to standard error; -vv logs debug messages too. By default (0) "
        "only warnings and errors are logged.",
    )  # fmt: skip
    parser.add_argument(
        "--v", dest="verbose", type=klog_level, default=argparse.SUPPRESS, metavar="LEVEL",
        help=f"The same as a level of kube-apiserver: from {REQUESTS_LEVEL} on each request is "
        f"logged, and from {DEBUG_LEVEL} on debug messages too. Default: 0.",
    )  # fmt: skip
    parser.add_argument(
        "--vmodule", type=module_levels, default=DEFAULTS.vmodule, metavar="PATTERN=N,...",
        help="Other levels for modules, 1 for -v and 2 for -vv: a pattern with * and ? is compared "
        "with a module's name, such as workqueue, and with its logger's, such as "
        "kapiserver.storage.*; the first that matches decides. Default: none.",
    )  # fmt: skip
    parser.add_argument(
        "--logging-format", choices=FORMATS, default=DEFAULTS.logging_format,
        help="The format of the log: lines of key=value, or of JSON. Default: %(default)s.",
    )  # fmt: skip


def klog_level(text: str) -> int:
    """Return the level of `-v` for one of klog. Raises ArgumentTypeError."""
    level = count(text)
    return 2 if level >= DEBUG_LEVEL else int(level >= REQUESTS_LEVEL)


def module_levels(text: str) -> tuple[tuple[str, int], ...]:
    """Return the patterns and levels of a text such as `workqueue=2,kapiserver.rpc.*=1`. Raises
    ArgumentTypeError."""
    levels = []
    for part in names(text):
        pattern, _, level = part.rpartition("=")
        if not pattern or not (level.isascii() and level.isdecimal() and len(level) < 5):
            raise argparse.ArgumentTypeError(f"{part!r} is not of the form PATTERN=N")
        levels.append((pattern, int(level)))
    return tuple(levels)
