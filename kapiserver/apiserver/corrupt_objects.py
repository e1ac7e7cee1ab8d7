"""The Status of a read whose object cannot be decrypted or decoded.

With the feature gate AllowUnsafeMalformedObjectDeletion a Status says which objects are corrupt, so
that an administrator can delete them (`endpoints/operations/unsafe_delete.py`); without it, only
what is wrong with the first one. Mirrors etcd3/corrupt_obj_deleter.go and storage/errors of
k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.status import cause, details, status
from kapiserver.storage.errors import CorruptList, CorruptObject, Undecryptable, qualified_name

GATE = "AllowUnsafeMalformedObjectDeletion"
_WRITES = frozenset(("update", "patch"))
_READ_ERROR = "UnexpectedServerResponse"
_TOO_MANY = "too many errors, the list is truncated"


def object_status(error: Exception, info: RequestInfo) -> Tree:
    """Return the Status of a request for a CorruptObject."""
    assert isinstance(error, CorruptObject)
    if info.verb not in _WRITES:
        return internal_error(_storage_error(error, error.key.removeprefix(error.root)))
    if isinstance(error, Undecryptable):
        return internal_error(error.detail)
    return status(code=500, message=error.detail)


def list_status(error: Exception, info: RequestInfo) -> Tree:
    """Return the Status of a list, for a CorruptList."""
    assert isinstance(error, CorruptList)
    texts = [_storage_error(storage_error, storage_error.key) for storage_error in error.errors]
    causes = [
        cause(reason=_READ_ERROR, message=text, field=storage_error.key)
        for text, storage_error in zip(texts, error.errors, strict=True)
    ]
    if not error.is_complete:
        causes.append(cause(reason="FieldValueTooMany", message=_TOO_MANY))
    name = qualified_name(error.resource, error.group)
    message = f"failed to read one or more {name} from the storage: {texts[0]}"
    if len(texts) > 1:
        message += f" (and {len(texts) - 1} more)"
    status_details = details(name="list", group=error.group, kind=error.resource, causes=causes)
    return status(code=500, reason="StorageReadError", message=message, details=status_details)


def status_without_gate(error: CorruptObject | CorruptList) -> Tree:
    """Return the Status of a request, or of a list, without the feature gate."""
    first = error.errors[0] if isinstance(error, CorruptList) else error
    if not isinstance(first, Undecryptable):
        return status(code=500, message=first.problem)
    if isinstance(error, CorruptList):
        return internal_error(f'unable to transform key "{first.key}": {first.problem}')
    return internal_error(first.problem)


def internal_error(text: str) -> Tree:
    """Return the Status of an error that kube-apiserver calls internal."""
    status_details = details(causes=[{"message": text}])
    message = f"Internal error occurred: {text}"
    return status(code=500, reason="InternalError", message=message, details=status_details)


def _storage_error(error: CorruptObject, key: str) -> str:
    return (
        f"StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: {error.detail}"
    )
