"""Recordings of test servers: the writes, the requests and the final state in one file.

`kapiserver replay` serves such a file again. It holds everything that the server held, Secrets
included.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from kapiserver.apiserver.private_files import write_private
from kapiserver.codecs import json
from kapiserver.codecs.errors import CodecError
from kapiserver.storage.kv.contract import KeyValue, KVEvent, Revision
from kapiserver.testing.history.history import JournalEntry

VERSION = 1
"""The version of the file's format."""
MAX_BYTES = 1 << 30
"""Bytes of the uncompressed content of a file."""


class RecordedWrite(Struct, frozen=True):
    """One write of the store, and its time in seconds since the epoch."""

    event: KVEvent
    time: float


class Recording(Struct, frozen=True, kw_only=True):
    """The writes that a server has stored and the requests that it received.

    test        the name of the test
    root        prefix of the keys of objects
    time        the server's time at the end, in seconds since the epoch
    base        items of the store before the first recorded write
    writes      the writes in the order of their revisions
    requests    the requests as `RequestRecord.to_dict` returns them
    """

    test: str
    root: str
    time: float
    base: Sequence[KeyValue] = ()
    writes: Sequence[RecordedWrite] = ()
    requests: Sequence[Mapping[str, Any]] = field(default=())

    @property
    def revision(self) -> int:
        """The newest revision."""
        revisions = [item.revision for item in self.base]
        return max([1, *revisions, *(write.event.revision for write in self.writes)])


def recorded_writes(entries: Iterable[JournalEntry]) -> list[RecordedWrite]:
    """Return the writes of a journal."""
    return [RecordedWrite(entry.event, entry.time) for entry in entries]


def save(recording: Recording, path: Path) -> None:
    """Write a recording to a file that only its owner may read: gzip of JSON. Raises OSError."""
    document = {
        "version": VERSION,
        "test": recording.test,
        "root": recording.root,
        "time": recording.time,
        "base": [[item.key, item.revision, _text(item.value)] for item in recording.base],
        "writes": [
            [write.event.key, write.event.revision, _text(write.event.value), write.time]
            for write in recording.writes
        ],
        "requests": list(recording.requests),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, gzip.compress(json.encode_value(document), 6))


def read(path: Path) -> Recording:
    """Read a recording. Raises OSError, and ValueError if the file is not one."""
    try:
        with gzip.open(path) as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ValueError(f"{path} has more than {MAX_BYTES} bytes")
        document: Any = json.decode_value(data)
        if document["version"] != VERSION:
            raise ValueError(f"{path}: version {document['version']} is not {VERSION}")
        return _recording(document)
    except (CodecError, EOFError, gzip.BadGzipFile, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a recording of a test server: {error}") from error


def _recording(document: Any) -> Recording:
    return Recording(
        test=document["test"],
        root=document["root"],
        time=document["time"],
        base=[
            KeyValue(key, base64.b64decode(value), Revision(revision))
            for key, revision, value in document["base"]
        ],
        writes=[
            RecordedWrite(
                KVEvent(
                    key,
                    Revision(revision),
                    None if value is None else base64.b64decode(value),
                    None,
                ),
                time,
            )
            for key, revision, value, time in document["writes"]
        ],
        requests=document["requests"],
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
