"""Writes small files at once, readable by their owner only by default: keys and kubeconfigs.

Knows no content.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

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
        with open_private(temporary, "wb", permissions=mode) as file:
            file.write(data)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, f"cannot write: {error.strerror}", str(path)) from error


def open_private(
    path: Path, mode: str, *, permissions: int = PRIVATE, buffering: int = -1
) -> BinaryIO:
    """Open a binary file in a mode of `open`; a new file has these permissions. Raises OSError."""
    # An opener: `open` adds flags such as O_BINARY, without which Windows changes line ends.
    opener = functools.partial(os.open, mode=permissions)
    return cast(BinaryIO, open(path, mode, buffering, opener=opener))


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file, created if it is missing, until the block ends; others wait for it. Where the
    file cannot be created or locked, as in a folder that is only readable, there is no lock."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            file = stack.enter_context(open_private(path, "ab"))
            _lock(file.fileno())  # until the file is closed
        yield


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        while True:
            with contextlib.suppress(PermissionError):  # raised after ten seconds
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
                return
else:

    def _lock(descriptor: int) -> None:
        with contextlib.suppress(ImportError):  # systems that are not Unix
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)


def _is_written(path: Path, data: bytes, mode: int) -> bool:
    try:
        return path.read_bytes() == data and not stat.S_IMODE(path.stat().st_mode) & ~mode
    except OSError:
        return False
