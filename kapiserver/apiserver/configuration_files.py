"""Reads configuration files of the server, in YAML or JSON, that flags name.

A file holds one object of a kind that the API does not serve.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from kapiserver.api.errors import FieldError
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import ConfigurationScheme
from kapiserver.api.types import Kind, Tree
from kapiserver.codecs.errors import CodecError

MAX_BYTES = 1 << 20
"""The largest file that is read."""


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
    from kapiserver.codecs.yaml import YAMLSerializer  # most servers have no such file

    try:
        data = read_small_file(file)
    except OSError as error:
        raise BadConfiguration(
            f"cannot read the {purpose} file {file}: {error.strerror}"
        ) from error
    try:
        decoded = YAMLSerializer(ConfigurationScheme(kinds)).decode(data, defaults=default)
    except CodecError as error:
        raise BadConfiguration(f"{purpose} file {file}: {error}") from error
    strict_errors = decoded.strict_errors if strict else ()
    problems = [*strict_errors, *map(str, validate(decoded.object))]
    if problems:
        raise BadConfiguration(f"{purpose} file {file}: {', '.join(problems)}")
    return decoded.object
