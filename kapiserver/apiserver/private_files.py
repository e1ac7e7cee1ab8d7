"""Writes small files at once, readable by their owner only by default: keys and kubeconfigs.

Knows no content.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

PRIVATE = 0o600
PUBLIC = 0o644


def write_private(path: Path, data: bytes, *, mode: int = PRIVATE) -> None:
    """Write a file and rename it to its path, so that no reader sees half of it.

    A file that has this content and no more permissions than `mode` stays as it is: a server on a
    full disk must be able to start. Raises OSError, which names the path.
    """
    if _is_written(path, data, mode):
        return
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, f"cannot write: {error.strerror}", str(path)) from error


def _is_written(path: Path, data: bytes, mode: int) -> bool:
    try:
        return path.read_bytes() == data and not stat.S_IMODE(path.stat().st_mode) & ~mode
    except OSError:
        return False
