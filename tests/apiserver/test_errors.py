"""Every error of every layer has its Status."""

import importlib
import inspect
import pkgutil

import pytest

import kapiserver
from kapiserver.api import errors as api
from kapiserver.apiserver import errors as server
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.storage import errors as storage

INFO = parse_request_info("PUT", "/apis/apps/v1/namespaces/n/deployments/d", {})
BASES = {"APIError", "CodecError", "StorageError", "ObjectError", "ServerError"}
"""Never raised themselves."""
BEFORE_ANY_REQUEST = {
    "BadAdmissionConfiguration", "BadTokenFile", "InvalidEncryptionConfig", "NotOurs",
    "WorkerFailed",
}  # fmt: skip
"""End the start of a server."""
NEVER_LEAVE = {
    "ResponseLost",  # storage/etcd.py words it as Unavailable
    "BadToken",  # storage/lists.py words it as a BadQuery
    "DecryptionError",  # the objects' codec words it as Undecryptable
    "CostExceeded",  # the rules of custom resources word it as a FieldError
    "EtcdError",  # the etcd store words it as an error of the KV contract
    "Failed",  # likewise: an expression that has no value
    "NotAllocated",  # allocation/services.py words it as an InvalidObject
    "PortNotAllocated",  # likewise
    "RequestNotSent",  # storage/etcd.py asks another endpoint
    "NotHealthy",  # a failed check is told as failed
    "OutOfTime",  # custom strategies word it as TakesLong
    "FetchRequired",  # storage/offload.py asks again beside the event loop
    "SyntaxProblem",  # told where a definition of rules is checked
    "StrictErrors",  # body.py words them as a BadObject
    "TagError",  # ends `make generate`
    "TakesLong",  # storage/offload.py does it where nobody waits
    "Uncompilable",  # told where a definition of rules is checked
    "WebhookFailed",  # worded by what asked the webhook
    "WrongPath",  # likewise, of a fieldPath
    "WrongPattern",  # likewise, of a pattern
}
"""Caught in the package that raises them."""


def _classes() -> list[type[Exception]]:
    found: dict[str, type[Exception]] = {}
    for module in pkgutil.walk_packages(kapiserver.__path__, "kapiserver."):
        if module.name == "kapiserver.client":
            continue  # nothing here uses it
        for one in vars(importlib.import_module(module.name)).values():
            is_error = inspect.isclass(one) and issubclass(one, Exception)
            if is_error and one.__module__.startswith("kapiserver.") and one.__name__[0] != "_":
                found[one.__name__] = one
    ours = found.keys() - BASES - BEFORE_ANY_REQUEST - NEVER_LEAVE
    return [found[name] for name in sorted(ours)]


@pytest.mark.parametrize("error", _classes(), ids=lambda one: one.__name__)
def test_every_error_is_mapped(error: type[Exception]) -> None:
    """No error class of any layer is left to become a 500 by accident."""
    assert any(base in server.TABLE for base in error.__mro__)


def test_unexpected_errors() -> None:
    """What nobody expected has no Status of its own."""
    assert server.status_of(KeyError("x"), INFO) is None


STATUSES = [
    (
        storage.NotFound(resource="deployments", group="apps", name="d"),
        404, "NotFound", 'deployments.apps "d" not found',
        {"name": "d", "group": "apps", "kind": "deployments"},
    ),
    (
        storage.ObjectConflict(resource="pods", group="", name="p"),
        409, "Conflict",
        'Operation cannot be fulfilled on pods "p": the object has been modified; please apply '
        "your changes to the latest version and try again",
        {"name": "p", "kind": "pods"},
    ),
    (server.UnknownResource(), 404, "NotFound",
     "the server could not find the requested resource", {}),
    (server.MethodNotAllowed(), 405, "MethodNotAllowed",
     "the server does not allow this method on the requested resource", {}),
    (server.BodyTooLarge(3145728), 413, "RequestEntityTooLarge",
     "Request entity too large: limit is 3145728", None),
    (server.Unauthorized(), 401, "Unauthorized", "Unauthorized", None),
    (server.RequestTimeout(), 504, "Timeout",
     "Timeout: request did not complete within the allotted timeout", {}),
]  # fmt: skip


@pytest.mark.parametrize(("error", "code", "reason", "message", "details"), STATUSES)
def test_statuses(error, code, reason, message, details) -> None:
    """Code, reason, message and details are kube-apiserver's."""
    tree = server.status_of(error, INFO)
    assert tree is not None
    assert list(tree)[:4] == ["kind", "apiVersion", "metadata", "status"]
    assert (tree["code"], tree["reason"], tree["message"]) == (code, reason, message)
    assert tree.get("details") == details


def test_invalid_objects() -> None:
    """Each broken rule is a cause."""
    errors = [api.required(api.Path("spec") / "a"), api.invalid(api.Path("spec") / "b", 1, "no")]
    error = api.InvalidObject(group="apps", kind="Deployment", name="d", errors=errors)
    tree = server.status_of(error, INFO)
    assert tree is not None
    assert tree["code"] == 422
    assert tree["details"]["causes"] == [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.a"},
        {"reason": "FieldValueInvalid", "message": "Invalid value: 1: no", "field": "spec.b"},
    ]
