"""The flags of the storage backends, which the records of their settings declare."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kapiserver.apiserver.config import ANNOTATIONS
from kapiserver.flags.values import DEFAULTS, boolean, positive
from kapiserver.storage.backends import backend_flags
from kapiserver.storage.kv.flag import Flag

_TYPES: dict[str, dict[str, Any]] = {
    "int": {"type": positive},
    "str": {},
    "bool": {"type": boolean, "nargs": "?", "const": True},
    "Path | None": {"type": Path},
}
"""How a parser reads the value of a setting, by the setting's annotation."""


def add_backend_flags(parser: argparse.ArgumentParser) -> None:
    """Add a group of flags for each backend that has settings, with the backend's name."""
    for backend, flags in backend_flags().items():
        group = parser.add_argument_group(backend)
        for flag in flags:
            _add(group, flag)


def _add(group: argparse._ArgumentGroup, flag: Flag) -> None:
    how = {"choices": flag.choices} if flag.choices else _TYPES[ANNOTATIONS[flag.setting]]
    group.add_argument(
        f"--{flag.setting.replace('_', '-')}",
        default=getattr(DEFAULTS, flag.setting),
        metavar=flag.metavar or None,
        help=flag.help,
        **how,
    )


def backend_pairs() -> Iterator[tuple[str, str]]:
    """Yield the pairs of settings of backends that must be set together."""
    for flags in backend_flags().values():
        yield from ((flag.setting, flag.partner) for flag in flags if flag.partner)
