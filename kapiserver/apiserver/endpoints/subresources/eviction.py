"""POST of `pods/eviction`: a pod goes if the budget of its like allows.

Mirrors EvictionREST of pkg/registry/core/pod/storage.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

from kapiserver.api.accessors import (
    generation_of,
    has_condition,
    is_terminating,
    labels_of,
    name_of,
    resource_version_of,
    value_at,
)
from kapiserver.api.errors import BadObject
from kapiserver.api.group import GroupVersion
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.label_selectors import selection_of, selects_everything
from kapiserver.api.policy import v1 as policy
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.chain import admission
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import (
    Body,
    decode_object,
    field_validation,
    place,
    read_body,
)
from kapiserver.apiserver.endpoints.options import check_options, delete_query, read_options
from kapiserver.apiserver.endpoints.responses import tree_response
from kapiserver.apiserver.endpoints.subresources.pod_conditions import set_condition
from kapiserver.apiserver.errors import BadRequest, Forbidden, TooManyRequests
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.status import SUCCESS, cause, status
from kapiserver.apiserver.target import Target
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import ObjectConflict
from kapiserver.storage.lifecycle import timestamp
from kapiserver.storage.query import DeleteQuery, ListQuery

POLICY = GroupVersion("policy", "v1")
MAX_DISRUPTED = 2000
ATTEMPTS = 20
_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
    "support."
)


async def evict(server: Server, request: Request, target: Target) -> AnyResponse:
    """Delete the pod, or answer that it may not go now."""
    body = await read_body(server, request, target)
    options = read_options(server, request, "CreateOptions")
    tree = await evict_pod(server, target, request.caller(), options, body)
    return tree_response(server, request, tree, status=tree["code"])


async def evict_pod(
    server: Server, target: Target, caller: Caller, options: Tree, body: Body
) -> Tree:
    """Delete the pod of an Eviction and return a Status, a failure if its budgets overlap. Raises
    TooManyRequests if a budget does not allow it now."""
    eviction = decode_object(server, target, body, field_validation(options), caller.warnings)
    place(target, eviction)
    if name_of(eviction) != target.key.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    query = delete_query(_delete_options(eviction, options))
    admit = admission(server, caller, target, dry_run=query.dry_run)
    validate = await admit(eviction, None)
    if validate is not None:
        await validate()
    if not await _gone_without_asking(server, target, query):
        entry = await target.store.get(target.key)
        pod = entry.tree()
        budgets = await _budgets_of(server, pod)
        if len(budgets) > 1:
            return status(code=500, message=_SEVERAL)
        await _go(server, target, pod, budgets, query)
    return status(code=201, message="", outcome=SUCCESS)


def _delete_options(eviction: Tree, options: Tree) -> Tree:
    given = dict(eviction.get("deleteOptions") or {})
    inside, outside = given.get("dryRun") or [], options.get("dryRun") or []
    if inside and outside and inside != outside:
        shown = " and ".join(f"[{' '.join(one)}]" for one in (outside, inside))
        raise BadRequest(f"Non-matching dry-run options in request and content: {shown}")
    if inside or outside:
        given["dryRun"] = inside or outside
    check_options(given, "DeleteOptions")
    return given


async def _gone_without_asking(server: Server, target: Target, query: DeleteQuery) -> bool:
    """Delete a pod that serves nobody: no budget counts it."""
    for attempt in range(1, ATTEMPTS + 1):
        pod = (await target.store.get(target.key)).tree()
        phase = value_at(pod, "status", "phase")
        if phase not in ("Succeeded", "Failed", "Pending") and not is_terminating(pod):
            return False
        wanted = query
        if phase == "Pending" and not is_terminating(pod):
            wanted = _of_version(query, resource_version_of(pod))
        try:
            await _delete(server, target, wanted)
        except ObjectConflict:
            if query.preconditions.resource_version is not None or attempt == ATTEMPTS:
                raise
        else:
            return True
    return False


async def _go(
    server: Server, target: Target, pod: Tree, budgets: list[Tree], query: DeleteQuery
) -> None:
    if not budgets:
        await _delete(server, target, query)
        return
    budget = budgets[0]
    if not _uncounted(pod, budget):
        await _spend(server, target, budget, dry_run=query.dry_run)
        await _delete(server, target, query)
        return
    try:  # it must not have become ready since
        await _delete(server, target, _of_version(query, resource_version_of(pod)))
    except ObjectConflict:
        if query.preconditions.resource_version is not None:
            raise
        raise _processing(name_of(budget)) from None


async def _budgets_of(server: Server, pod: Tree) -> list[Tree]:
    store = server.stores.by_name(POLICY, "poddisruptionbudgets")
    found = []
    query = ListQuery(namespace=pod["metadata"]["namespace"])
    for entry in (await store.list(query)).entries:
        budget = entry.tree()
        selector = value_at(budget, "spec", "selector")
        if not selector or selects_everything(selector):
            continue
        with contextlib.suppress(BadObject):  # such a selector selects nothing
            selection = selection_of(selector)
            if selection is not None and selection.matches(labels_of(pod), {}):
                found.append(budget)
    return found


def _uncounted(pod: Tree, budget: Tree) -> bool:
    """Whether a pod is missing already, and others are enough or it may go anyway."""
    if has_condition(pod, "Ready"):
        return False
    if value_at(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    known = budget.get("status") or {}
    desired = known.get("desiredHealthy") or 0
    return 0 < desired <= (known.get("currentHealthy") or 0)


async def _spend(server: Server, target: Target, budget: Tree, *, dry_run: bool) -> None:
    """Take one disruption from the budget. Raises TooManyRequests, Forbidden."""
    store = server.stores.by_name(POLICY, "poddisruptionbudgets")
    now = timestamp(server.clock.now())

    def spent(current: Tree | None) -> Tree:
        assert current is not None
        known = current.setdefault("status", {})
        _check(current, known)
        left = known["disruptionsAllowed"] = known["disruptionsAllowed"] - 1
        if left == 0:
            _say_insufficient(current, known, now)
        gone = {**(known.get("disruptedPods") or {}), target.key.name: now}
        known["disruptedPods"] = dict(sorted(gone.items()))
        reorder_keys(known, policy.PodDisruptionBudgetStatus)
        return current

    key = ObjectKey(target.key.namespace, name_of(budget))
    await store.update(key, spent, subresource="status", dry_run=dry_run)


def _check(budget: Tree, known: Tree) -> None:
    name = name_of(budget)
    if (known.get("observedGeneration") or 0) < generation_of(budget):
        raise _processing(name)
    allowed = known.get("disruptionsAllowed") or 0
    refused = ""
    if allowed < 0:
        refused = "pdb disruptions allowed is negative"
    elif len(known.get("disruptedPods") or ()) > MAX_DISRUPTED:
        refused = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
    if refused:
        raise Forbidden(refused, resource="poddisruptionbudget", group="policy", name=name)
    if allowed == 0:
        needs, has = known.get("desiredHealthy") or 0, known.get("currentHealthy") or 0
        message = f"The disruption budget {name} needs {needs} healthy pods and has {has} currently"
        raise _violated(message, retry_after=0)


def _say_insufficient(budget: Tree, known: Tree, now: str) -> None:
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": known.get("observedGeneration") or 0,
        "lastTransitionTime": now,
        "reason": "InsufficientPods",
        "message": "",
    }
    others = []
    for one in known.get("conditions") or ():
        if one.get("type") != "DisruptionAllowed":
            others.append(one)
        elif one.get("status") == "False":
            condition["lastTransitionTime"] = one.get("lastTransitionTime")
    if not condition["observedGeneration"]:
        del condition["observedGeneration"]
    known["conditions"] = [*others, condition]


def _processing(name: str) -> TooManyRequests:
    message = f"The disruption budget {name} is still being processed by the server."
    return _violated(message, retry_after=10)


def _violated(message: str, *, retry_after: int) -> TooManyRequests:
    causes = [cause(reason="DisruptionBudget", message=message)]
    return TooManyRequests(_VIOLATES, retry_after=retry_after, causes=causes)


def _of_version(query: DeleteQuery, version: str) -> DeleteQuery:
    if query.preconditions.resource_version is not None:
        return query
    return replace(query, preconditions=replace(query.preconditions, resource_version=version))


async def _delete(server: Server, target: Target, query: DeleteQuery) -> None:
    """Say why the pod goes, then delete it."""
    if not query.dry_run:
        now = timestamp(server.clock.now())

        def said(pod: Tree | None) -> Tree:
            assert pod is not None
            set_condition(
                pod,
                now,
                kind="DisruptionTarget",
                reason="EvictionByEvictionAPI",
                message="Eviction API: evicting",
            )
            return pod

        written = await target.store.update(
            target.key, said, subresource="binding", preconditions=query.preconditions
        )
        if query.preconditions.resource_version is not None:
            query = replace(
                query,
                preconditions=replace(
                    query.preconditions, resource_version=str(written.entry.revision)
                ),
            )
    await target.store.delete(target.key, query)
