"""The part that replacing, patching and applying have in common: an update through admission."""

from __future__ import annotations

from msgspec.structs import replace

from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.chain import admission
from kapiserver.apiserver.authorization.forbidden import forbidden
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.options import is_dry_run
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.target import Target
from kapiserver.storage.cache.query import Admission, Admit, UpdateFunc, Write, WriteResult


async def guaranteed_update(
    server: Server,
    target: Target,
    caller: Caller,
    options: Tree,
    change: UpdateFunc,
    write: Write,
) -> WriteResult:
    """Update the object with `change`, as `ResourceStore.update` does, through admission. The
    admission chain, dry run and subresource of `write` are those of the request. Adds the warnings
    of the kind's strategy to those of the caller."""
    dry_run = is_dry_run(options)
    admit = admission(server, caller, target, options, dry_run=dry_run)
    if write.may_create and not caller.may_all:
        admit = _with_authorized_creation(server, target, caller, admit)
    write = replace(
        write,
        admit=admit,
        dry_run=dry_run,
        subresource=target.subresource,
    )
    result = await target.store.update(target.key, change, write)
    for text in result.warnings:
        caller.warnings.add(text)
    return result


def _with_authorized_creation(
    server: Server, target: Target, caller: Caller, admit: Admit
) -> Admit:
    """Return admission that rejects an object that the update would create, unless the user may
    create it. Mirrors withAuthorization of k8s.io/apiserver."""

    async def admit_authorized(new: Tree | None, old: Tree | None) -> Admission:
        admitted = await admit(new, old)
        if old is not None:
            return admitted

        async def validate() -> None:
            await _check_may_create(server, target, caller)
            await admitted.validate()

        return replace(admitted, validate=validate)

    return admit_authorized


async def _check_may_create(server: Server, target: Target, caller: Caller) -> None:
    """Raise Forbidden unless the user may create the object."""
    info = RequestInfo(
        verb="create",
        version=target.version,
        namespace=target.key.namespace,
        resource=target.resource.name,
        name=target.key.name,
        subresource=target.subresource,
    )
    decision = await server.authorizer.authorize(caller.user, info)
    if not decision.allowed:
        raise forbidden(caller.user, info, decision.reason)


def names_version(document: object) -> bool:
    """Whether an object, or a patch in the form of one, names a resourceVersion, and so makes the
    update conditional. Version 0 counts as none."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version not in (None, "", "0")
