"""The errors of storage. Knows no HTTP.

    StorageError
    |-- KeyExists          create of an existing key
    |-- Conflict           update or delete of a key that changed or is absent
    |-- Compacted          the requested revision was compacted
    |-- FutureRevision     the requested revision does not exist yet
    |-- Unavailable        the backend does not respond, or is closed
    |   |-- OutcomeUnknown     it did not respond to a write, which it may have made
    |   `-- Refused            the backend rejects the call: no space, no permission
    |-- ValueTooLarge      the value exceeds the backend's limit
    |-- Corrupt            a stored value cannot be read
    |   |-- Damaged        the file of the store is damaged
    |   |-- Undecryptable  no configured key decrypts it
    |   `-- Unreadable     it does not decode to an object of its resource
    |       `-- DefinitionDeleted  because the definition of the custom resource was deleted
    |-- EncryptionFailed   a value cannot be encrypted now
    |-- ConversionRefused  a conversion webhook failed
    |-- ResourceVersionSet a new object has a resourceVersion
    |-- StoreLocked        another process owns the file
    |-- TooMuchWork        too much long work is queued
    `-- ObjectError        about objects instead of keys; has resource, group and name
        |-- NotFound               the object does not exist
        |-- AlreadyExists          an object of that name exists
        |-- ObjectConflict         a precondition failed, or the object was changed
        |-- Expired                a resource version or continue token is too old
        |-- ResourceVersionTooLarge  a resource version does not exist yet
        `-- BadQuery               a resource version or continue token is invalid

`apiserver/errors.py` maps each to a Status.
"""

from __future__ import annotations


class StorageError(Exception):
    """Base of all storage errors."""


class KeyExists(StorageError):
    """The key to create exists already."""

    def __init__(self, key: str) -> None:
        super().__init__(f"key exists: {key}")
        self.key = key


class ConversionRefused(StorageError):
    """A conversion webhook did not respond, or its response is invalid. The message is for the
    client."""


class Conflict(StorageError):
    """The key to update or delete is not at the expected revision. `current` is its revision and
    `value` its value, so that the caller need not read it again; both are None if it is absent."""

    def __init__(
        self, key: str, *, expected: int, current: int | None, value: bytes | None
    ) -> None:
        super().__init__(f"key {key} is at revision {current}, not {expected}")
        self.key = key
        self.expected = expected
        self.current = current
        self.value = value


class Compacted(StorageError):
    """The requested revision was compacted; `oldest` is the first that can be read."""

    def __init__(self, revision: int, *, oldest: int) -> None:
        super().__init__(f"revision {revision} was compacted, the oldest is {oldest}")
        self.revision = revision
        self.oldest = oldest


class FutureRevision(StorageError):
    """The requested revision is greater than the current one."""

    def __init__(self, revision: int, *, current: int) -> None:
        super().__init__(f"revision {revision} does not exist yet, the newest is {current}")
        self.revision = revision
        self.current = current


class Unavailable(StorageError):
    """The backend does not respond, or is closed."""


class OutcomeUnknown(Unavailable):
    """The backend did not respond to a write, which it may have made."""

    MESSAGE = "it is not known whether the write was made"

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}; {self.MESSAGE}")


class Refused(Unavailable):
    """The backend rejects the call; the message is the backend's."""


class ValueTooLarge(StorageError):
    """The value exceeds the backend's limit; the message is the backend's."""


class Corrupt(StorageError):
    """A stored value cannot be read."""


class Damaged(Corrupt):
    """The file of the store is damaged. The message says where, and what to do about it."""

    def __init__(self, damage: object) -> None:
        super().__init__(
            f"the store is damaged: {damage}. Stop the server, run `kapiserver storage check`, and "
            "restore a backup with `kapiserver storage restore`"
        )


class Undecryptable(Corrupt):
    """No configured key decrypts a stored value. The message is for the client."""

    def __init__(self, problem: str, *, key: str) -> None:
        super().__init__(problem)
        self.key = key

    def for_list(self) -> Undecryptable:
        """Return the error for a list that contains the value."""
        message = f'unable to transform key "{_printable(self.key)}": {self}'
        return Undecryptable(message, key=self.key)


def _printable(key: str) -> str:
    # Other programs may write keys of any bytes to the same store.
    return key.encode(errors="surrogateescape").decode(errors="backslashreplace")


class EncryptionFailed(StorageError):
    """A value cannot be encrypted now: the KMS plugin fails. The message is for the client."""


class Unreadable(Corrupt):
    """A stored value does not decode to an object of its resource. The message is for the client
    and has the key, because a list has many objects."""

    def __init__(self, problem: object, *, key: str) -> None:
        super().__init__(f"{_printable(key)}: {problem}")
        self.key = key


class DefinitionDeleted(Unreadable):
    """The definition of a custom resource was deleted while a request read an object of it."""


class ResourceVersionSet(StorageError):
    """A new object has a resourceVersion. kube-apiserver answers 500 with this message, and clients
    expect it: no other request of a client may be answered with 500."""

    MESSAGE = "resourceVersion should not be set on objects to be created"

    def __init__(self) -> None:
        super().__init__(self.MESSAGE)


class StoreLocked(StorageError):
    """Another process owns the file."""


class TooMuchWork(StorageError):
    """Too much long work of this user, or of all users, is queued."""

    def __init__(self) -> None:
        super().__init__("too many large objects are being processed, please try again later")


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
    """The object does not exist: 404 NotFound."""

    def __init__(self, *, resource: str, group: str, name: str) -> None:
        message = f'{_qualified(resource, group)} "{name}" not found'
        super().__init__(message, resource=resource, group=group, name=name)


class AlreadyExists(ObjectError):
    """An object of that name exists: 409 AlreadyExists.

    retry_after  seconds, 0 for none; 1 if no unique name was found for a generateName
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
    """A precondition failed, or the object was changed: 409 Conflict."""

    def __init__(self, detail: str = MODIFIED, *, resource: str, group: str, name: str) -> None:
        message = (
            f'Operation cannot be fulfilled on {_qualified(resource, group)} "{name}": {detail}'
        )
        super().__init__(message, resource=resource, group=group, name=name)


class Expired(ObjectError):
    """A resource version or continue token is too old: 410 Expired.

    continue_token  metadata.continue of the Status: continues the list at the newest version
    """

    def __init__(
        self, message: str, *, resource: str, group: str, continue_token: str = ""
    ) -> None:
        super().__init__(message, resource=resource, group=group)
        self.continue_token = continue_token


class ResourceVersionTooLarge(ObjectError):
    """A resource version that does not exist yet: 504 Timeout, retryAfterSeconds 1, one
    cause `ResourceVersionTooLarge: Too large resource version`."""

    def __init__(self, revision: int, *, current: int, resource: str, group: str) -> None:
        message = f"Timeout: Too large resource version: {revision}, current: {current}"
        super().__init__(message, resource=resource, group=group)
        self.revision = revision
        self.current = current


class BadQuery(ObjectError):
    """A resource version or continue token that makes no sense: 400 BadRequest."""
