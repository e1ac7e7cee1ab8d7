"""The part that replacing, patching and applying have in common: an update through admission."""

from __future__ import annotations

from msgspec.structs import replace

from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.chain import admission
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.options import is_dry_run
from kapiserver.apiserver.target import Target
from kapiserver.storage.cache.query import UpdateFunc, Write, WriteResult


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
    write = replace(
        write,
        admit=admission(server, caller, target, options, dry_run=dry_run),
        dry_run=dry_run,
        subresource=target.subresource,
    )
    result = await target.store.update(target.key, change, write)
    for text in result.warnings:
        caller.warnings.add(text)
    return result


def names_version(document: object) -> bool:
    """Whether an object, or a patch in the form of one, names a resourceVersion, and so makes the
    update conditional. Version 0 counts as none."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version not in (None, "", "0")
