"""What can go wrong in storage, without a word about HTTP.

    StorageError
    |-- KeyExists          create of a key that is there
    |-- Conflict           update or delete of a key that moved on or is absent
    |-- Compacted          the revision asked for is forgotten
    |-- FutureRevision     the revision asked for does not exist yet
    |-- Unavailable        the backend does not answer
    |   `-- Refused            it answers, and will not do it: no space, no permission
    |-- ValueTooLarge      more than the backend takes in one write
    |-- Corrupt            a stored value cannot be read
    |   |-- Undecryptable  it is sealed, and nothing here opens it
    |   `-- Unreadable     it is no object of its resource
    |-- ConversionRefused  what converts the objects does not do it
    |-- StoreLocked        another process owns the file
    `-- ObjectError        about objects, not keys; names resource, group and object
        |-- NotFound               no such object
        |-- AlreadyExists          an object of that name is there
        |-- ObjectConflict         a precondition does not hold, or the object moved on
        |-- Expired                a resource version or continue token is too old
        |-- ResourceVersionTooLarge  it is newer than everything written
        `-- BadQuery               a resource version or continue token that makes no sense

`apiserver/errors.py` maps each to a Status.
"""

from __future__ import annotations


class StorageError(Exception):
    """Base of all storage errors."""


class KeyExists(StorageError):
    """Create of a key that is there."""

    def __init__(self, key: str) -> None:
        super().__init__(f"key exists: {key}")
        self.key = key


class ConversionRefused(StorageError):
    """What converts objects between versions does not answer, or with something that is no
    answer; the message is for the client."""


class Conflict(StorageError):
    """Update or delete of a key whose revision is not the expected one; `current` is None when
    the key is absent."""

    def __init__(self, key: str, *, expected: int, current: int | None) -> None:
        super().__init__(f"key {key} is at revision {current}, not {expected}")
        self.key = key
        self.expected = expected
        self.current = current


class Compacted(StorageError):
    """The revision asked for was compacted; `oldest` is the first that can be read."""

    def __init__(self, revision: int, *, oldest: int) -> None:
        super().__init__(f"revision {revision} was compacted, the oldest is {oldest}")
        self.revision = revision
        self.oldest = oldest


class FutureRevision(StorageError):
    """The revision asked for is greater than the current one."""

    def __init__(self, revision: int, *, current: int) -> None:
        super().__init__(f"revision {revision} does not exist yet, the newest is {current}")
        self.revision = revision
        self.current = current


class Unavailable(StorageError):
    """The backend does not answer, or is closed."""


class Refused(Unavailable):
    """The backend answers and will not do it; the message is its own."""


class ValueTooLarge(StorageError):
    """More than the backend takes in one write; the message is its own."""


class Corrupt(StorageError):
    """A stored value cannot be read."""


class Undecryptable(Corrupt):
    """A stored value is sealed, and nothing here opens it; the message is for the client."""

    def __init__(self, problem: str, *, key: str) -> None:
        super().__init__(problem)
        self.key = key

    def for_list(self) -> Undecryptable:
        """The same, said of a list."""
        message = f'unable to transform key "{_shown(self.key)}": {self}'
        return Undecryptable(message, key=self.key)


def _shown(key: str) -> str:
    # It may be any bytes, where others write to the same store.
    return key.encode(errors="surrogateescape").decode(errors="backslashreplace")


class Unreadable(Corrupt):
    """A stored value is no object of the resource whose key it has; the message is for the
    client, who may not know otherwise which of many it is."""

    def __init__(self, problem: object, *, key: str) -> None:
        super().__init__(f"{_shown(key)}: {problem}")
        self.key = key


class StoreLocked(StorageError):
    """Another process owns the file."""


class ObjectError(StorageError):
    """Base of the errors about objects; the message is for the client.

    `resource` is the plural name (in a precondition's conflict the kind), `name` may be empty.
    """

    def __init__(self, message: str, *, resource: str, group: str, name: str = "") -> None:
        super().__init__(message)
        self.resource = resource
        self.group = group
        self.name = name


def _qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


class NotFound(ObjectError):
    """No such object: 404 NotFound."""

    def __init__(self, *, resource: str, group: str, name: str) -> None:
        message = f'{_qualified(resource, group)} "{name}" not found'
        super().__init__(message, resource=resource, group=group, name=name)


class AlreadyExists(ObjectError):
    """An object of that name is there: 409 AlreadyExists.

    retry_after  seconds, 0: not given; 1 when no unique name was found for a generateName
    """

    def __init__(
        self, *, resource: str, group: str, name: str, detail: str = "", retry_after: int = 0
    ) -> None:
        message = f'{_qualified(resource, group)} "{name}" already exists'
        if detail == TERMINATING:
            message = f"{TERMINATING}: {message}"
        elif detail:
            message = f"{message}, {detail}"
        super().__init__(message, resource=resource, group=group, name=name)
        self.retry_after = retry_after


TERMINATING = "object is being deleted"
NO_UNIQUE_NAME = "the server was not able to generate a unique name for the object"
MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class ObjectConflict(ObjectError):
    """A precondition does not hold, or the object moved on: 409 Conflict."""

    def __init__(self, detail: str = MODIFIED, *, resource: str, group: str, name: str) -> None:
        message = (
            f'Operation cannot be fulfilled on {_qualified(resource, group)} "{name}": {detail}'
        )
        super().__init__(message, resource=resource, group=group, name=name)


class Expired(ObjectError):
    """A resource version or continue token is too old: 410 Expired.

    continue_token  goes into the Status' metadata.continue: continues at the newest version
    """

    def __init__(
        self, message: str, *, resource: str, group: str, continue_token: str = ""
    ) -> None:
        super().__init__(message, resource=resource, group=group)
        self.continue_token = continue_token


class ResourceVersionTooLarge(ObjectError):
    """A resource version newer than everything written: 504 Timeout, retryAfterSeconds 1, one
    cause `ResourceVersionTooLarge: Too large resource version`."""

    def __init__(self, revision: int, *, current: int, resource: str, group: str) -> None:
        message = f"Timeout: Too large resource version: {revision}, current: {current}"
        super().__init__(message, resource=resource, group=group)
        self.revision = revision
        self.current = current


class BadQuery(ObjectError):
    """A resource version or continue token that makes no sense: 400 BadRequest."""
