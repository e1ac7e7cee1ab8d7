"""The flags of the log."""

from __future__ import annotations

import argparse

from kapiserver.apiserver.serving.process.logs import FORMATS
from kapiserver.flags.values import DEFAULTS, names


def add_logging_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say what is logged, and how."""
    parser.add_argument(
        "-v", "--verbose", action="count", default=0,
        help="Log each request to standard error; -vv logs debug messages too. By default (0) "
        "only warnings and errors are logged.",
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
