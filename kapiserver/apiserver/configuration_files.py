"""Reads configuration files of the server, in YAML or JSON, that flags name.

A file holds one object of a kind that the API does not serve.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from kapiserver.api.errors import FieldError
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import ConfigurationScheme
from kapiserver.api.types import Kind, Tree
from kapiserver.codecs.errors import CodecError
from kapiserver.metrics import Reloads, content_hash
from kapiserver.storage.concurrency.clock import Clock

MAX_BYTES = 1 << 20
"""The largest file that is read."""


_log = logging.getLogger(__name__)


class BadConfiguration(ValueError):
    """The file cannot be read or is invalid."""


def read_small_file(file: Path) -> bytes:
    """Return the content of a file. Raises OSError, also for more than MAX_BYTES."""
    with file.open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"the file is larger than {MAX_BYTES} bytes", str(file))
    return data


def read_configuration(
    file: Path,
    kinds: Mapping[GroupVersionKind, type[Kind]],
    *,
    purpose: str,
    validate: Callable[[Tree], Iterable[FieldError]],
    strict: bool = True,
    default: GroupVersionKind | None = None,
) -> Tree:
    """Return the object of a file, valid. `purpose` names the file in errors. A file that
    is not strict may have unknown and duplicate fields; a missing kind or version is that of
    `default`. Raises BadConfiguration."""
    data = read_configuration_data(file, purpose)
    return decode_configuration(
        data, file, kinds, purpose=purpose, validate=validate, strict=strict, default=default
    )


def read_configuration_data(file: Path, purpose: str) -> bytes:
    """Return the content of a file. Raises BadConfiguration."""
    try:
        return read_small_file(file)
    except OSError as error:
        raise BadConfiguration(
            f"cannot read the {purpose} file {file}: {error.strerror}"
        ) from error


def decode_configuration(
    data: bytes,
    file: Path,
    kinds: Mapping[GroupVersionKind, type[Kind]],
    *,
    purpose: str,
    validate: Callable[[Tree], Iterable[FieldError]],
    strict: bool = True,
    default: GroupVersionKind | None = None,
) -> Tree:
    """Return the object in the content of a file, see `read_configuration`. Raises
    BadConfiguration."""
    from kapiserver.codecs.yaml import YAMLSerializer  # most servers have no such file

    try:
        decoded = YAMLSerializer(ConfigurationScheme(kinds)).decode(data, defaults=default)
    except CodecError as error:
        raise BadConfiguration(f"{purpose} file {file}: {error}") from error
    strict_errors = decoded.strict_errors if strict else ()
    problems = [*strict_errors, *map(str, validate(decoded.object))]
    if problems:
        raise BadConfiguration(f"{purpose} file {file}: {', '.join(problems)}")
    return decoded.object


class ReloadedFile:
    """A configuration file that is read again while the server runs. Its reloads are counted as
    kube-apiserver counts them.

    data    the last content that was read; that in force, unless it was refused
    """

    def __init__(self, file: Path, purpose: str, clock: Clock, reloads: Reloads) -> None:
        """Read the file. Raises BadConfiguration."""
        self._file = file
        self._purpose = purpose
        self._clock = clock
        self._reloads = reloads
        self.data = read_configuration_data(file, purpose)
        reloads.hash = content_hash(self.data)

    def has_changed(self) -> bool:
        """Read the file again, and report whether its content differs. If it cannot be read, log
        the error and return False; the next call tries again."""
        try:
            data = read_configuration_data(self._file, self._purpose)
        except BadConfiguration as error:
            self.refuse(error)
            return False
        if data == self.data:
            return False
        self.data = data
        return True

    def refuse(self, error: Exception) -> None:
        """Log why the new content is not used."""
        _log.error("the changed %s is not used: %s", self._purpose, error)
        self._reloads.fail(self._clock.now())

    def accept(self) -> None:
        """Log that the new content is in force."""
        _log.info("the changed %s is used", self._purpose)
        self._reloads.succeed(self._clock.now(), content_hash(self.data))
