"""Errors of the API layer, independent of HTTP.

    APIError
    |-- InvalidObject      an object breaks rules: a list of FieldErrors
    |-- BadObject          a body, option or selector that is malformed as a whole
    |-- NotRegistered      an unknown group, version or kind
    |-- VersionDropped     managedFields name a version that a custom kind no longer has
    |-- FieldConflicts     an apply would change fields of other managers
    |-- PatchFailed        a patch that does not apply to the object
    |   `-- PatchTestFailed  an operation `test` that found another value
    |-- PatchTooLong       a patch with too many operations
    `-- ConversionFailed   a value does not fit the requested version

A FieldError is data, not an exception: validation collects all of them. Mirrors
k8s.io/apimachinery/pkg/util/validation/field and api/errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from kapiserver.api.go_format import go_value, join_errors, json_text, quote
from kapiserver.api.group import GroupVersionKind

ErrorType = Literal[
    "required", "invalid", "forbidden", "not supported", "duplicate", "not found", "too long",
    "too many", "type invalid", "internal",
]  # fmt: skip

_REASONS: dict[str, tuple[str, str]] = {
    "required": ("FieldValueRequired", "Required value"),
    "invalid": ("FieldValueInvalid", "Invalid value"),
    "forbidden": ("FieldValueForbidden", "Forbidden"),
    "not supported": ("FieldValueNotSupported", "Unsupported value"),
    "duplicate": ("FieldValueDuplicate", "Duplicate value"),
    "not found": ("FieldValueNotFound", "Not found"),
    "too long": ("FieldValueTooLong", "Too long"),
    "too many": ("FieldValueTooMany", "Too many"),
    "type invalid": ("FieldValueTypeInvalid", "Invalid value"),
    "internal": ("InternalError", "Internal error"),
}
_WITHOUT_VALUE = ("required", "forbidden", "too long", "internal")
OMITTED: Any = object()
"""The value of an error whose message shows no value."""


class Path(Struct, frozen=True):
    """The path of a field as messages show it: `spec.containers[0].name`, `data[key]`."""

    text: str = ""

    def __truediv__(self, name: str) -> Path:
        """Return the path of the field `name` of this object."""
        return Path(f"{self.text}.{name}" if self.text else name)

    def __getitem__(self, index: int | str) -> Path:
        """Return the path of an item of this list or an entry of this map."""
        return Path(f"{self.text}[{index}]")

    def __str__(self) -> str:
        return self.text


class FieldError(Struct, frozen=True):
    """One broken rule."""

    type: ErrorType
    path: Path
    detail: str = ""
    value: Any = None

    @property
    def reason(self) -> str:
        """The `reason` of a StatusCause."""
        return _REASONS[self.type][0]

    @property
    def message(self) -> str:
        """The `message` of a StatusCause: everything but the path."""
        text = _REASONS[self.type][1]
        if self.type not in _WITHOUT_VALUE and self.value is not OMITTED:
            text = f"{text}: {_format_value(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class RatchetedError(FieldError, frozen=True):
    """A broken rule that becomes a warning: the stored object broke it before the update
    (KEP-4008)."""


class NamedString(str):
    """A value whose Go type is a string type with a name of its own: messages show it as JSON."""

    __slots__ = ()


def _format_value(value: Any) -> str:
    if isinstance(value, str) and not isinstance(value, NamedString):
        return quote(value)
    return go_value(value) if isinstance(value, bool | int | float) else json_text(value)


def required(path: Path, detail: str = "") -> FieldError:
    """Return the error of a required value that is missing."""
    return FieldError("required", path, detail)


def invalid(path: Path, value: Any, detail: str) -> FieldError:
    """Return the error of a value that breaks a rule."""
    return FieldError("invalid", path, detail, value)


def forbidden(path: Path, detail: str) -> FieldError:
    """Return the error of a value that must not be set."""
    return FieldError("forbidden", path, detail)


def duplicate(path: Path, value: Any) -> FieldError:
    """Return the error of a second occurrence of a unique value."""
    return FieldError("duplicate", path, "", value)


def not_supported(path: Path, value: Any, allowed: Sequence[str]) -> FieldError:
    """Return the error of a value that is not allowed; the message lists those allowed, sorted."""
    names = ", ".join(f'"{value_name}"' for value_name in sorted(allowed))
    return FieldError("not supported", path, f"supported values: {names}", value)


def not_supported_in_order(path: Path, value: Any, allowed: Sequence[str]) -> FieldError:
    """Return the error of a value that is not allowed; the message lists those allowed as given."""
    names = ", ".join(f'"{value_name}"' for value_name in allowed)
    return FieldError("not supported", path, f"supported values: {names}", value)


def pluralize(count: int, noun: str) -> str:
    """Format a count: `1 item`, `2 items`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def too_long(path: Path, limit: int) -> FieldError:
    """Return the error of a value with too many bytes."""
    return FieldError("too long", path, f"may not be more than {pluralize(limit, 'byte')}")


def too_many_characters(path: Path, limit: int) -> FieldError:
    """Return the error of a value with too many characters."""
    return FieldError("too long", path, f"may not be more than {pluralize(limit, 'character')}")


def too_many(path: Path, count: int, limit: int) -> FieldError:
    """Return the error of a list with too many items."""
    return FieldError("too many", path, f"must have at most {pluralize(limit, 'item')}", count)


def not_found(path: Path, value: Any) -> FieldError:
    """Return the error of a reference to something that does not exist."""
    return FieldError("not found", path, "", value)


class APIError(Exception):
    """Base class of all errors about objects."""


MAX_ERRORS = 1_000
MAX_ERROR_CHARACTERS = 1 << 20


class InvalidObject(APIError):
    """An object breaks rules; `errors` is never empty. It has at most MAX_ERRORS of the errors,
    whose texts have about MAX_ERROR_CHARACTERS, so that the client gets a short answer.

    messages    the message of each error, made once: their values may be large
    """

    def __init__(self, *, group: str, kind: str, name: str, errors: Sequence[FieldError]) -> None:
        self.messages = _first_messages(errors)
        self.errors = tuple(errors[: len(self.messages)])
        pairs = zip(self.errors, self.messages, strict=True)
        texts = [f"{error.path}: {message}" for error, message in pairs]
        qualified = f"{kind}.{group}" if group else kind
        super().__init__(f"{qualified} {quote(name)} is invalid: {join_errors(texts)}")
        self.group = group
        self.kind = kind
        self.name = name


def _first_messages(errors: Sequence[FieldError]) -> Sequence[str]:
    messages: list[str] = []
    characters = 0
    for error in errors:
        messages.append(error.message)
        characters += len(str(error.path)) + len(messages[-1])
        if len(messages) >= MAX_ERRORS or characters > MAX_ERROR_CHARACTERS:
            break
    return messages


class BadObject(APIError):
    """A body, option or selector is malformed as a whole; the message is for the client."""


class NotRegistered(APIError):
    """A group, version or kind is unknown."""

    @classmethod
    def of_kind(cls, kind: GroupVersionKind) -> NotRegistered:
        """Return the error of a kind, worded as runtime.Scheme words it."""
        return cls(f'no kind "{kind.kind}" is registered for version "{kind.group_version}"')


class ConversionFailed(APIError):
    """A value does not fit the requested version."""


class VersionDropped(APIError):
    """managedFields of a custom object name a version that its definition no longer has."""

    def __init__(self, api_version: str) -> None:
        super().__init__(f"request to convert CR to an invalid group/version: {api_version}")


class FieldConflicts(APIError):
    """An apply would change fields that other managers own.

    conflicts  the fields (a set of paths), by their manager
    paths      (manager, path) of each conflict as text, in order
    """

    def __init__(self, conflicts: Mapping[Any, Any], paths: Sequence[tuple[str, str]]) -> None:
        self.conflicts = dict(conflicts)
        self.paths = tuple(paths)
        super().__init__(f"Apply failed with {self._conflict_text()}")

    def _conflict_text(self) -> str:
        if len(self.paths) == 1:
            [(manager, path)] = self.paths
            return f"1 conflict: conflict with {manager}: {path}"
        lines = []
        for manager in dict.fromkeys(manager for manager, _ in self.paths):
            lines.append(f"conflicts with {manager}:")
            lines.extend(f"- {path}" for owner, path in self.paths if owner == manager)
        return f"{len(self.paths)} conflicts: " + "\n".join(lines)


class PatchFailed(APIError):
    """A patch does not apply to the object; the message is for the log, not the client."""


class PatchTestFailed(PatchFailed):
    """The operation `test` of a JSON patch found another value."""


class PatchTooLong(APIError):
    """A patch has too many operations; the message is for the client."""


def drop_tracebacks(error: Exception) -> None:
    """Drop the tracebacks of an error and of those that led to it.

    The traceback of an error has the frames that it passed and their callers, and they refer to the
    objects of the request. A frame that has the error in a variable is in a cycle with it, which
    only the garbage collector would free.
    """
    unseen: list[BaseException] = [error]
    while unseen:
        exception = unseen.pop()
        unseen += filter(None, (exception.__cause__, exception.__context__))
        exception.__traceback__ = exception.__cause__ = exception.__context__ = None
