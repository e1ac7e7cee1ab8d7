"""Delete an object that cannot be read: its key is lost, or its bytes are damaged.

Clients ask for it with `ignoreStoreReadErrorWithClusterBreakingPotential` in DeleteOptions, and
need the verb `unsafe-delete-ignore-read-errors`. Nobody can look at the object, so there is no
admission of it, no precondition, no finalizer and no deletion of dependents. An object that can be
read is not deleted. Mirrors authorizeUnsafeDelete of endpoints/handlers/delete.go and
corrupt_obj_deleter.go of k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.api.errors import InvalidObject, Path, invalid
from kapiserver.api.types import Tree
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.options import IGNORE_READ_ERROR, is_dry_run
from kapiserver.apiserver.errors import Forbidden
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.status import SUCCESS
from kapiserver.apiserver.target import Target

VERB = "unsafe-delete-ignore-read-errors"
_ANNOTATION = "apiserver.k8s.io/unsafe-delete-ignore-read-error"


def is_unsafe(options: Tree) -> bool:
    """Return whether DeleteOptions ask to ignore that an object cannot be read."""
    return bool(options.get(IGNORE_READ_ERROR))


def check_collection(options: Tree) -> None:
    """Raise InvalidObject if the options are for one object only."""
    if is_unsafe(options):
        detail = "is not allowed with DELETECOLLECTION, try again after removing the option"
        errors = [invalid(Path(IGNORE_READ_ERROR), True, detail)]
        raise InvalidObject(group="meta.k8s.io", kind="DeleteOptions", name="", errors=errors)


async def delete_unreadable(server: Server, target: Target, caller: Caller, options: Tree) -> Tree:
    """Delete an object that cannot be read, and return the Status. Raises Forbidden, NotFound, and
    ObjectConflict for an object that can be read."""
    caller.audit.annotations[_ANNOTATION] = ""
    await _authorize(server, target, caller)
    await target.store.delete_unreadable(target.key, dry_run=is_dry_run(options))
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": SUCCESS,
        "details": {"name": target.key.name, "kind": target.resource.kind},
        "code": 200,
    }


async def _authorize(server: Server, target: Target, caller: Caller) -> None:
    if caller.may_all:
        return
    resource, key = target.resource, target.key
    info = RequestInfo(
        verb=VERB,
        version=target.version,
        namespace=key.namespace,
        resource=resource.name,
        name=key.name,
    )
    decision = await server.authorizer.authorize(caller.user, info)
    if not decision.allowed:
        reason = f'not permitted to do "{VERB}", reason: {decision.reason}'
        raise Forbidden(reason, resource=resource.name, group=resource.group, name=key.name)
