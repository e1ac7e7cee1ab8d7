"""Reads configuration files of the server, in YAML or JSON, that flags name.

A file holds one object of a kind that the API does not serve. Unknown and duplicate fields are
errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from kapiserver.api.errors import FieldError, NotRegistered
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Kind, Tree
from kapiserver.codecs.errors import CodecError

MAX_BYTES = 1 << 20
"""The largest file that is read."""
ConfigurationKind: TypeAlias = tuple[str, str, type[Kind]]
"""Group, version and type; the kind has the name of the type."""


class BadConfiguration(ValueError):
    """The file cannot be read or is invalid."""


class _ConfigurationScheme(Scheme):
    """A scheme of the kinds that one file may have."""

    def __init__(self, kinds: Sequence[ConfigurationKind]) -> None:
        super().__init__()
        self._configuration_kinds = {
            GroupVersionKind(group, version, type_.__name__): type_
            for group, version, type_ in kinds
        }

    def type_of(self, kind: GroupVersionKind) -> type[Kind]:
        if kind not in self._configuration_kinds:
            raise NotRegistered.of_kind(kind)
        return self._configuration_kinds[kind]


def read_configuration(
    file: Path,
    kinds: Sequence[ConfigurationKind],
    *,
    what: str,
    validate: Callable[[Tree], Iterable[FieldError]],
) -> Tree:
    """Return the object of a file, valid. `what` names the file's purpose in errors. Raises
    BadConfiguration."""
    from kapiserver.codecs.yaml import YAMLSerializer  # most servers have no such file

    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadConfiguration(f"cannot read the {what} file {file}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise BadConfiguration(f"the {what} file {file} is larger than {MAX_BYTES} bytes")
    try:
        decoded = YAMLSerializer(_ConfigurationScheme(kinds)).decode(data)
    except CodecError as error:
        raise BadConfiguration(f"{what} file {file}: {error}") from error
    problems = [*decoded.strict_errors, *map(str, validate(decoded.object))]
    if problems:
        raise BadConfiguration(f"{what} file {file}: {', '.join(problems)}")
    return decoded.object
