"""The admission chain: plugins that may change or refuse a write before it is stored.

The store calls the chain with the object in the hub version (admit), and again when the object is
prepared and valid (validate). All plugins (`plugins/`) get the same Attributes. This module also
removes duplicate owner references, as kube-apiserver's handlers do before admission, and runs the
rules of the resource (`resource_rules.py`). Mirrors k8s.io/apiserver/pkg/admission.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec.structs import replace

from kapiserver.api.accessors import metadata_of, name_of
from kapiserver.api.apply.managed_fields_entries import decode_managers, managed_fields_of
from kapiserver.api.errors import BadObject
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes, Operation
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.context import AdmissionStep, PluginChain, Server
from kapiserver.apiserver.errors import Forbidden
from kapiserver.apiserver.metrics import StepLabels
from kapiserver.apiserver.target import Target
from kapiserver.spans import span
from kapiserver.storage.cache.query import Admission, Admit
from kapiserver.storage.objects.lifecycle import timestamp

_AFTER_MUTATION = " after mutating admission happens"


def admission(
    server: Server,
    caller: Caller,
    target: Target,
    options: Tree,
    *,
    dry_run: bool = False,
    connect: bool = False,
) -> Admit:
    """Return the chain as a function of (new, old). The operation is CONNECT with `connect`, else
    CREATE without an old object, DELETE without a new one, else UPDATE. `options` are those of the
    request."""
    suffix = f"/{target.subresource}" if target.subresource else ""
    resource = target.resource.qualified_name + suffix
    run = server.offloader.run

    async def admit(new: Tree | None, old: Tree | None) -> Admission:
        metadata = metadata_of(new or {})
        operation: Operation = "CREATE" if old is None else "DELETE" if new is None else "UPDATE"
        attributes = Attributes(
            operation="CONNECT" if connect else operation,
            target=target,
            user=caller.user,
            warnings=caller.warnings,
            audit=caller.audit,
            verb=caller.verb,
            # An object of a collection that is deleted has no name in the request.
            name=target.key.name if new is None else name_of(new) or target.key.name,
            generate_name=metadata.get("generateName") or "",
            options=options,
            dry_run=dry_run,
        )
        if target.kind_info.is_terminating:
            _refuse_create(attributes)
        owners = metadata.get("ownerReferences")
        if new is not None and owners and not connect:
            await run(len(owners), _drop_duplicate_owners, attributes, new, "")
        plugins = await server.plugin_chain(resource, attributes.operation)
        steps = _with_work(server, plugins.admit, attributes)
        seconds = await _mutate(server, plugins, steps, attributes, new, old) if steps else 0.0
        plugins.admitted.observe(seconds)
        rules = plugins.rules
        if new is not None:
            if rules.set_defaults is not None:
                now = timestamp(server.clock.now())
                rules.set_defaults(new, old, attributes.user, now)
            if rules.check is not None:
                await rules.check(server, attributes, new, old)
        has_changed = attributes.reinvocation.is_required
        check_prepared = rules.check_prepared
        if not plugins.validate and check_prepared is None:
            return Admission(has_changed=has_changed)

        async def validate() -> None:
            if new is not None and check_prepared is not None:
                await check_prepared(server, attributes, new, old)
            final = attributes
            if not attributes.name:  # the store has generated it
                final = replace(attributes, name=name_of(new or {}))
            steps = _with_work(server, plugins.validate, final)
            seconds = await _run(server, steps, final, new, old) if steps else 0.0
            plugins.validated.observe(seconds)

        return Admission(validate=validate, has_changed=has_changed)

    return admit


def _with_work(
    server: Server, steps: Sequence[AdmissionStep], attributes: Attributes
) -> list[AdmissionStep]:
    """Return the hooks that are not idle. The idle ones take no time in the metrics."""
    steps_with_work = []
    for step in steps:
        if step.is_idle is not None and step.is_idle(server, attributes):
            step.admitted.counts[0] += 1  # as `observe(0.0)`, without a call
        else:
            steps_with_work.append(step)
    return steps_with_work


def _refuse_create(attributes: Attributes) -> None:
    """Raise Forbidden if a custom object is created whose definition is being deleted."""
    resource = attributes.target.resource
    if attributes.operation == "CREATE":
        raise Forbidden(
            "create not allowed while custom resource definition is terminating",
            resource=resource.name,
            group=resource.group,
            name=attributes.name,
        )


async def _mutate(
    server: Server,
    plugins: PluginChain,
    steps: Sequence[AdmissionStep],
    attributes: Attributes,
    new: Tree | None,
    old: Tree | None,
) -> float:
    """Run these mutating hooks, and all of `plugins` once more if a webhook or policy changed the
    object. Return how many seconds they took together. Mirrors reinvocationHandler of
    k8s.io/apiserver."""
    reinvocation = attributes.reinvocation
    fields_before = managed_fields_of(new) if new is not None else []
    seconds = await _run(server, steps, attributes, new, old)
    if reinvocation.is_required:
        reinvocation.is_running = True
        steps = _with_work(server, plugins.admit, attributes)
        seconds += await _run(server, steps, attributes, new, old)
        if new is not None:
            _drop_duplicate_owners(attributes, new, _AFTER_MUTATION)
            _check_managed_fields(attributes, new, fields_before)
    return seconds


def _check_managed_fields(attributes: Attributes, new: Tree, before: list[Tree]) -> None:
    """Restore the managedFields that a mutation made invalid, with a warning. Mirrors
    managedFieldsValidatingAdmissionController of k8s.io/apiserver."""
    try:
        decode_managers(managed_fields_of(new))
    except BadObject as error:
        metadata_of(new)["managedFields"] = before
        attributes.warnings.add(
            ".metadata.managedFields was in an invalid state after admission; this could be caused "
            "by an outdated mutating admission controller; please fix your requests: "
            f"{error}"
        )


async def _run(
    server: Server,
    steps: Sequence[AdmissionStep],
    attributes: Attributes,
    new: Tree | None,
    old: Tree | None,
) -> float:
    """Run hooks in order, record the duration of each, and return how many seconds they took
    together."""
    seconds = 0.0
    with span("admission") as admission:
        started = admission.start
        try:
            for step in steps:
                started = time.perf_counter()
                await step.hook(server, attributes, new, old)
                elapsed = time.perf_counter() - started
                step.admitted.observe(elapsed)
                seconds += elapsed
        except BaseException:
            elapsed = time.perf_counter() - started
            labels, metrics = step.labels._replace(rejected="true"), server.metrics
            metrics.admission_seconds.observe(labels, elapsed)
            metrics.admission_step_seconds.observe(StepLabels(*labels[1:]), seconds + elapsed)
            raise
    return seconds


def _drop_duplicate_owners(attributes: Attributes, new: Tree, phase: str) -> None:
    """Remove owner references that are repeated, with a warning that names the phase."""
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
            f".metadata.ownerReferences contains duplicate entries{phase}; API server dedups owner "
            "references in 1.20+, and may reject such requests as early as 1.24; please fix your "
            f"requests; duplicate UID(s) observed: {', '.join(duplicate_uids)}"
        )
