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
    |   |-- CorruptObject  it is the value of an object
    |   |   |-- Undecryptable  no configured key decrypts it
    |   |   `-- Unreadable     it does not decode to an object of its resource
    |   |-- CorruptList        a list has such objects
    |   `-- DefinitionDeleted  the definition of the custom resource was deleted meanwhile
    |-- EncryptionFailed   a value cannot be encrypted now
    |-- ConversionRefused  a conversion webhook failed
    |-- ResourceVersionSet a new object has a resourceVersion
    |-- StoreLocked        another process owns the file
    |-- TooMuchWork        too much long work is queued
    |-- QuotaExceeded      the store may have no more keys
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

from collections.abc import Sequence

from kapiserver.api.go_format import quote


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


class CorruptObject(Corrupt):
    """The value of an object cannot be read.

    problem     what decryption or the decoder said; for the client
    detail      the same, and which of both it was
    key         the key of the object, printable
    root        the beginning of all keys
    """

    DETAIL = ""

    def __init__(self, problem: object, *, key: str, root: str = "", revision: int = 0) -> None:
        # Other programs may write keys of any bytes to the same store.
        self.key = key.encode(errors="surrogateescape").decode(errors="backslashreplace")
        self.root = root
        self.problem = str(problem)
        self.detail = f"{self.DETAIL} revision={revision}: {problem}"
        super().__init__(f"{self.key}: {self.detail}")


class Undecryptable(CorruptObject):
    """No configured key decrypts the value. kube-apiserver names no revision then."""

    DETAIL = "data from the storage is not transformable"


class Unreadable(CorruptObject):
    """The value does not decode to an object of its resource."""

    DETAIL = "object not decodable"


class DefinitionDeleted(Corrupt):
    """The definition of a custom resource was deleted while a request read an object of it."""


class CorruptList(Corrupt):
    """Objects of a list cannot be read.

    errors          those of the first objects, MAX_ERRORS at most
    is_complete     whether they are all
    """

    MAX_ERRORS = 100

    def __init__(self, errors: Sequence[CorruptObject], *, resource: str, group: str) -> None:
        super().__init__(f"{len(errors)} objects of a list cannot be read: {errors[0]}")
        self.errors = errors
        self.is_complete = len(errors) < self.MAX_ERRORS
        self.resource = resource
        self.group = group


class EncryptionFailed(StorageError):
    """A value cannot be encrypted now: the KMS plugin fails. The message is for the client."""


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


class QuotaExceeded(StorageError):
    """The store has as many keys as it may have. The message is for the client."""


class ObjectError(StorageError):
    """Base of the errors about objects; the message is for the client.

    `resource` is the plural name (in a precondition's conflict the kind), `name` may be empty.
    """

    def __init__(self, message: str, *, resource: str, group: str, name: str = "") -> None:
        super().__init__(message)
        self.resource = resource
        self.group = group
        self.name = name


def qualified_name(resource: str, group: str) -> str:
    """Return the name of a resource in messages, such as `deployments.apps`."""
    return f"{resource}.{group}" if group else resource


class NotFound(ObjectError):
    """The object does not exist: 404 NotFound."""

    def __init__(self, *, resource: str, group: str, name: str) -> None:
        message = f"{qualified_name(resource, group)} {quote(name)} not found"
        super().__init__(message, resource=resource, group=group, name=name)


class AlreadyExists(ObjectError):
    """An object of that name exists: 409 AlreadyExists.

    retry_after  seconds, 0 for none; 1 if no unique name was found for a generateName
    """

    def __init__(
        self, *, resource: str, group: str, name: str, detail: str = "", retry_after: int = 0
    ) -> None:
        message = f'{qualified_name(resource, group)} "{name}" already exists'
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
            f'Operation cannot be fulfilled on {qualified_name(resource, group)} "{name}": {detail}'
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
