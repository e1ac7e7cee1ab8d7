"""The admission chain: plugins that may change or refuse a write before it is stored.

The store calls the chain with the object in the hub version (admit), and again when the object is
prepared and valid (validate). All plugins (`plugins/`) get the same Attributes. This module also
removes duplicate owner references, as kube-apiserver's handlers do before admission. Mirrors
k8s.io/apiserver/pkg/admission.
"""

from __future__ import annotations

import time

from kapiserver.api.accessors import metadata_of, name_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.attributes import Attributes, Operation
from kapiserver.apiserver.admission.plugins import dra_admin_access
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.context import Hook, Server
from kapiserver.apiserver.metrics import AdmissionLabels
from kapiserver.apiserver.target import Target
from kapiserver.storage.lifecycle import timestamp
from kapiserver.storage.query import Admit, Validate


def admission(server: Server, caller: Caller, target: Target, *, dry_run: bool = False) -> Admit:
    """Return the chain as a function of (new, old); the operation is CREATE without an old object,
    DELETE without a new one, else UPDATE."""
    suffix = f"/{target.subresource}" if target.subresource else ""
    resource = target.resource.qualified_name + suffix
    run = server.stores.offloader.run

    async def admit(new: Tree | None, old: Tree | None) -> Validate | None:
        operation: Operation = "CREATE" if old is None else "DELETE" if new is None else "UPDATE"
        attributes = Attributes(
            operation=operation,
            target=target,
            user=caller.user,
            warnings=caller.warnings,
            annotations=caller.annotations,
            name=name_of(new or old or {}) or target.key.name,
            dry_run=dry_run,
        )
        if new is not None:
            owners = metadata_of(new).get("ownerReferences") or ()
            await run(len(owners), _drop_duplicate_owners, attributes, new)
        plugins = await run(0, server.plugin_chain, resource, operation)
        for name, hook in plugins.admit:
            await _run(server, "admit", name, hook, attributes, new, old)
        if new is not None and resource in _WITH_REQUEST_DEFAULTS:
            _apply_request_defaults(server, attributes, resource, new, old)
        if new is not None and resource in _DEVICE_CLAIMS:
            await dra_admin_access.check(server, target, new, old)
        if new is not None and resource in _ROLES and server.rbac is not None:
            await _check_escalation(server, attributes, new, old)
        if not plugins.validate:
            return None

        async def validate() -> None:
            for name, hook in plugins.validate:
                await _run(server, "validate", name, hook, attributes, new, old)

        return validate

    return admit


async def _run(
    server: Server,
    type_: str,
    name: str,
    hook: Hook,
    attributes: Attributes,
    new: Tree | None,
    old: Tree | None,
) -> None:
    """Run one plugin and record its duration."""
    started = time.perf_counter()
    rejected = "true"
    try:
        await hook(server, attributes, new, old)
        rejected = "false"
    finally:
        labels = AdmissionLabels(name, type_, attributes.operation, rejected)
        server.metrics.observe_admission(labels, time.perf_counter() - started)


_DEVICE_CLAIMS = (
    "resourceclaims.resource.k8s.io",
    "resourceclaims.resource.k8s.io/status",
    "resourceclaimtemplates.resource.k8s.io",
)
_CSR = "certificatesigningrequests.certificates.k8s.io"
_WITH_REQUEST_DEFAULTS = (
    _CSR,
    f"{_CSR}/approval",
    f"{_CSR}/status",
    "devicetaintrules.resource.k8s.io",
    "persistentvolumes/status",
    "podcertificaterequests.certificates.k8s.io/status",
    "resourceslices.resource.k8s.io",
)


_ROLES = frozenset(
    f"{name}.rbac.authorization.k8s.io"
    for name in ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
)


async def _check_escalation(
    server: Server, attributes: Attributes, new: Tree, old: Tree | None
) -> None:
    from kapiserver.apiserver.admission import role_escalation  # not needed without RBAC

    await role_escalation.check(server, attributes, new, old)


def _apply_request_defaults(
    server: Server, attributes: Attributes, resource: str, new: Tree, old: Tree | None
) -> None:
    from kapiserver.apiserver.admission.request_defaults import (
        REQUEST_DEFAULTS,  # loads the types of certificates
    )

    REQUEST_DEFAULTS[resource](new, old, attributes.user, timestamp(server.clock.now()))


def _drop_duplicate_owners(attributes: Attributes, new: Tree) -> None:
    owners = metadata_of(new).get("ownerReferences")
    if not owners:
        return
    seen: set[str] = set()
    unique, duplicate_uids = [], []
    for owner in owners:
        canonical = repr(sorted(owner.items()))
        if canonical not in seen:
            unique.append(owner)
        elif owner.get("uid") not in duplicate_uids:
            duplicate_uids.append(owner.get("uid", ""))
        seen.add(canonical)
    if duplicate_uids:
        metadata_of(new)["ownerReferences"] = unique
        attributes.warnings.add(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner "
            "references in 1.20+, and may reject such requests as early as 1.24; please fix your "
            f"requests; duplicate UID(s) observed: {', '.join(duplicate_uids)}"
        )
