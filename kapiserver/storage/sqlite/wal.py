"""Finds transactions that SQLite leaves out when its write-ahead log is damaged.

After a crash SQLite reads the log up to the first frame whose checksum is wrong, which it takes for
the end. Usually it is, because the crash cut off the last transaction. If two more transactions
follow, the first of them was complete on disk, and so was all before it: then the frame is damaged.
The format is described at https://www.sqlite.org/fileformat2.html#walformat.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from kapiserver.storage.errors import Refused

_HEADER = struct.Struct(">16xII8x")
_FRAME = struct.Struct(">4xIII8x")
_CUT_OFF = 1
"""How many transactions a crash can cut off: one begins when the last is on disk."""


def wal_size(path: str) -> int:
    """Return the number of bytes of a write-ahead log. Raises Refused if the file was deleted while
    it was open: writes to it are lost."""
    try:
        return os.stat(path).st_size
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error


def has_lost_transactions(path: Path, recovered: int, page_size: int) -> bool:
    """Report whether complete transactions follow the frames that SQLite read.

    path        the write-ahead log; it may be missing
    recovered   the number of frames that SQLite read

    Raises OSError.
    """
    if not path.exists():
        return False
    commits = 0
    with path.open("rb") as log:
        header = log.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return False
        salts = _HEADER.unpack(header)
        while True:
            log.seek(_HEADER.size + recovered * (_FRAME.size + page_size))
            frame = log.read(_FRAME.size)
            if len(frame) < _FRAME.size:
                return commits > _CUT_OFF
            size_after_commit, *frame_salts = _FRAME.unpack(frame)
            # A frame from before the last restart of the log differs in both salts. In a frame
            # whose salts are damaged, one of them is still right.
            is_of_this_log = any(a == b for a, b in zip(salts, frame_salts, strict=True))
            commits += bool(size_after_commit and is_of_this_log)
            recovered += 1
