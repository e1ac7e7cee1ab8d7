"""Resolve a RequestInfo to its Target; looks up custom kinds that another server established."""

from __future__ import annotations

from kapiserver.api.errors import NotRegistered
from kapiserver.api.kind_info import KindInfo
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import UnknownGroup, UnknownResource
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.target import Target, target_of


def find_target(server: Server, info: RequestInfo) -> Target | None:
    """Return the target of a resource request; None if `resolve_target` has to load its kind, or to
    look for it. Raises UnknownResource."""
    if (info.prefix == "api") != (not info.version.group):
        return None
    try:
        kind_info = server.scheme.kind_info(info.version, info.resource)
    except NotRegistered:
        return None
    return target_of(kind_info, server.stores, info) if kind_info.is_loaded else None


async def resolve_target(server: Server, info: RequestInfo, *, served_only: bool = True) -> Target:
    """Return the target of a resource request. Raises UnknownGroup, UnknownResource.

    served_only   whether a built-in resource that is off, or that the emulated release does not
                  have, is unknown; the server itself uses such resources, too
    """
    # The core group is served below /api, all others below /apis.
    if (info.prefix == "api") != (not info.version.group):
        raise UnknownGroup
    try:
        kind_info = server.scheme.kind_info(info.version, info.resource)
    except NotRegistered:
        kind_info = await _look_up(server, info) if served_only else _declared(server, info)
    if not kind_info.is_loaded:
        await server.offloader.run_in_thread(kind_info.load, limited=False)
    return target_of(kind_info, server.stores, info)


def _declared(server: Server, info: RequestInfo) -> KindInfo:
    try:
        return server.scheme.declared_kind_info(info.version, info.resource)
    except NotRegistered:
        raise UnknownResource from None


async def _look_up(server: Server, info: RequestInfo) -> KindInfo:
    """Ask the store for a definition that another server may have established."""
    group = info.version.group
    await server.custom_resources.is_defined(group, info.resource)
    if not server.scheme.has_group(group):
        raise UnknownGroup
    try:
        return server.scheme.kind_info(info.version, info.resource)
    except NotRegistered:
        is_declared = any(declared.name == group for declared in server.scheme.declared_groups)
        raise (UnknownResource if is_declared else UnknownGroup) from None
