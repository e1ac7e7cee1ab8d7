"""The authorization modes, by the names that --authorization-mode takes.

To add a mode, write an authorizer in a module of this package and add a row to `_FACTORIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kapiserver.apiserver.authorization.allow_authenticated import AllowAuthenticated
from kapiserver.apiserver.authorization.always_deny import AlwaysDeny
from kapiserver.apiserver.authorization.authorizer import Authorizer
from kapiserver.apiserver.authorization.privileged_group import PrivilegedGroup
from kapiserver.apiserver.authorization.rbac import RbacAuthorizer
from kapiserver.apiserver.authorization.rbac_index import RbacIndex
from kapiserver.apiserver.authorization.union import UnionAuthorizer
from kapiserver.storage.store_registry import StoreRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    """The authorizers of one server: their union, and RBAC's if that mode is on."""

    authorizer: Authorizer
    rbac: RbacAuthorizer | None = None


_FACTORIES: Mapping[str, Callable[[StoreRegistry], Authorizer]] = {
    "AlwaysAllow": lambda _stores: AllowAuthenticated(),
    "AlwaysDeny": lambda _stores: AlwaysDeny(),
    "RBAC": lambda stores: RbacAuthorizer(RbacIndex(stores)),
}
MODES = tuple(sorted(_FACTORIES))


def make_authorization(modes: Sequence[str], stores: StoreRegistry) -> Authorization:
    """Return the union of an authorizer for system:masters and those of the modes, in order. Raises
    ValueError for a mode that is unknown or named twice, or if no mode is named."""
    if not modes:
        raise ValueError("at least one authorization-mode must be passed")
    for mode in modes:
        if mode not in _FACTORIES:
            raise ValueError(f'authorization-mode "{mode}" is not a valid mode')
        if modes.count(mode) > 1:
            raise ValueError(f'authorization-mode "{mode}" is specified more than once')
    authorizers = [_FACTORIES[mode](stores) for mode in modes]
    rbac = next((each for each in authorizers if isinstance(each, RbacAuthorizer)), None)
    return Authorization(authorizer=UnionAuthorizer([PrivilegedGroup(), *authorizers]), rbac=rbac)
