"""POST of `pods/eviction`: delete a pod if its PodDisruptionBudget allows it.

Mirrors EvictionREST of pkg/registry/core/pod/storage.
"""

from __future__ import annotations

import contextlib

from msgspec.structs import replace

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
    check_namespace,
    decode_body,
    field_validation,
    read_body,
)
from kapiserver.apiserver.endpoints.negotiation import UNCONVERTED, negotiate
from kapiserver.apiserver.endpoints.options import check_options, delete_query, read_options
from kapiserver.apiserver.endpoints.responses import plain_response
from kapiserver.apiserver.endpoints.subresources.pod_conditions import set_condition
from kapiserver.apiserver.errors import BadRequest, Forbidden, TooManyRequests
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.status import SUCCESS, cause, status
from kapiserver.apiserver.target import Target
from kapiserver.apiserver.user import APISERVER
from kapiserver.storage.cache.query import DeleteQuery, ListQuery, Write
from kapiserver.storage.errors import ObjectConflict
from kapiserver.storage.objects.lifecycle import check_delete_preconditions, timestamp

POLICY = GroupVersion("policy", "v1")
MAX_DISRUPTED = 2000
ATTEMPTS = 20
_VIOLATION_MESSAGE = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL_BUDGETS_MESSAGE = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
    "support."
)


async def evict(server: Server, request: Request, target: Target) -> AnyResponse:
    """Delete the pod, or return a Status if a budget does not allow it."""
    response_format = negotiate(server, request, UNCONVERTED)
    body = await read_body(server, request, target)
    options = read_options(server, request, "CreateOptions")
    tree = await evict_pod(server, target, request.caller(), options, body)
    return plain_response(server, response_format, tree, tree["code"])


async def evict_pod(
    server: Server, target: Target, caller: Caller, options: Tree, body: Body
) -> Tree:
    """Delete the pod of an Eviction and return a Status, a failure if its budgets overlap. Raises
    TooManyRequests if a budget does not allow it now."""
    eviction = await decode_body(server, target, body, field_validation(options), caller.warnings)
    check_namespace(target, eviction)
    caller.audit.record_reference(eviction)
    dry_run = delete_query(_delete_options(eviction, options)).dry_run
    admit = admission(server, caller, target, options, dry_run=dry_run)
    admitted = await admit(eviction, None)
    if name_of(eviction) != target.key.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    query = delete_query(_delete_options(eviction, options))  # admission may have changed them
    await target.store.get(target.key)
    await admitted.validate()
    if not await _delete_unprotected(server, target, query):
        entry = await target.store.get(target.key)
        pod = entry.tree()
        budgets = await _budgets_of(server, pod)
        if len(budgets) > 1:
            return status(code=500, message=_SEVERAL_BUDGETS_MESSAGE)
        await _delete_within_budget(server, target, pod, budgets, query)
    return status(code=201, message="", outcome=SUCCESS)


def _delete_options(eviction: Tree, options: Tree) -> Tree:
    delete_options = dict(eviction.get("deleteOptions") or {})
    from_body, from_query = delete_options.get("dryRun") or [], options.get("dryRun") or []
    if from_body and from_query and from_body != from_query:
        both_values = " and ".join(f"[{' '.join(values)}]" for values in (from_query, from_body))
        raise BadRequest(f"Non-matching dry-run options in request and content: {both_values}")
    if from_body or from_query:
        delete_options["dryRun"] = from_body or from_query
    check_options(delete_options, "DeleteOptions")
    return delete_options


async def _delete_unprotected(server: Server, target: Target, query: DeleteQuery) -> bool:
    """Delete a pod that is pending, finished or terminating: budgets do not protect it. Return
    False if it is none of these."""
    for attempt in range(1, ATTEMPTS + 1):
        pod = (await target.store.get(target.key)).tree()
        phase = value_at(pod, "status", "phase")
        if phase not in ("Succeeded", "Failed", "Pending") and not is_terminating(pod):
            return False
        pod_query = query
        if phase == "Pending" and not is_terminating(pod):
            pod_query = _with_resource_version(query, resource_version_of(pod))
        try:
            await _delete(server, target, pod_query)
        except ObjectConflict:
            if query.preconditions.resource_version is not None or attempt == ATTEMPTS:
                raise
        else:
            return True
    return False


async def _delete_within_budget(
    server: Server, target: Target, pod: Tree, budgets: list[Tree], query: DeleteQuery
) -> None:
    if not budgets:
        await _delete(server, target, query)
        return
    budget = budgets[0]
    if not _ignores_budget(pod, budget):
        await _decrement_budget(server, target, budget, dry_run=query.dry_run)
        await _delete(server, target, query)
        return
    try:  # fails if the pod has changed, as it may have become ready
        await _delete(server, target, _with_resource_version(query, resource_version_of(pod)))
    except ObjectConflict:
        if query.preconditions.resource_version is not None:
            raise
        raise _budget_not_observed(name_of(budget)) from None


async def _budgets_of(server: Server, pod: Tree) -> list[Tree]:
    store = server.stores.by_name(POLICY, "poddisruptionbudgets")
    budgets = []
    query = ListQuery(namespace=pod["metadata"]["namespace"])
    for entry in (await store.list(query)).entries:
        budget = entry.tree()
        selector = value_at(budget, "spec", "selector")
        if not selector or selects_everything(selector):
            continue
        with contextlib.suppress(BadObject):  # an invalid selector selects nothing
            selection = selection_of(selector)
            if selection is not None and selection.matches(labels_of(pod), {}):
                budgets.append(budget)
    return budgets


def _ignores_budget(pod: Tree, budget: Tree) -> bool:
    """Return whether a pod is not ready and may be deleted without a disruption: enough other pods
    are healthy, or the policy is AlwaysAllow."""
    if has_condition(pod, "Ready"):
        return False
    if value_at(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    budget_status = budget.get("status") or {}
    desired = budget_status.get("desiredHealthy") or 0
    return 0 < desired <= (budget_status.get("currentHealthy") or 0)


async def _decrement_budget(server: Server, target: Target, budget: Tree, *, dry_run: bool) -> None:
    """Decrement the allowed disruptions of the budget. Raises TooManyRequests, Forbidden."""
    client = server.client(APISERVER, user_agent="kube-apiserver", authorize=False)
    namespace = target.key.namespace
    budgets = client.resource(str(POLICY), "poddisruptionbudgets", namespace=namespace)
    now = timestamp(server.clock.now())

    def decrement(current: Tree) -> Tree:
        budget_status = current.setdefault("status", {})
        _check_budget(current, budget_status)
        allowed = budget_status["disruptionsAllowed"] = budget_status["disruptionsAllowed"] - 1
        if allowed == 0:
            _set_insufficient(current, budget_status, now)
        disrupted = {**(budget_status.get("disruptedPods") or {}), target.key.name: now}
        budget_status["disruptedPods"] = dict(sorted(disrupted.items()))
        reorder_keys(budget_status, policy.PodDisruptionBudgetStatus)
        return current

    options = {"dryRun": "All"} if dry_run else {}
    await budgets.update_with_retry(name_of(budget), decrement, subresource="status", **options)


def _check_budget(budget: Tree, budget_status: Tree) -> None:
    name = name_of(budget)
    if (budget_status.get("observedGeneration") or 0) < generation_of(budget):
        raise _budget_not_observed(name)
    allowed = budget_status.get("disruptionsAllowed") or 0
    refusal = ""
    if allowed < 0:
        refusal = "pdb disruptions allowed is negative"
    elif len(budget_status.get("disruptedPods") or ()) > MAX_DISRUPTED:
        refusal = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
    if refusal:
        raise Forbidden(refusal, resource="poddisruptionbudget", group="policy", name=name)
    if allowed == 0:
        desired_count = budget_status.get("desiredHealthy") or 0
        healthy_count = budget_status.get("currentHealthy") or 0
        message = (
            f"The disruption budget {name} needs {desired_count} healthy pods and has "
            f"{healthy_count} currently"
        )
        raise _budget_violation(message, retry_after=0)


def _set_insufficient(budget: Tree, budget_status: Tree, now: str) -> None:
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": budget_status.get("observedGeneration") or 0,
        "lastTransitionTime": now,
        "reason": "InsufficientPods",
        "message": "",
    }
    conditions = []
    for existing in budget_status.get("conditions") or ():
        if existing.get("type") != "DisruptionAllowed":
            conditions.append(existing)
        elif existing.get("status") == "False":
            condition["lastTransitionTime"] = existing.get("lastTransitionTime")
    if not condition["observedGeneration"]:
        del condition["observedGeneration"]
    budget_status["conditions"] = [*conditions, condition]


def _budget_not_observed(name: str) -> TooManyRequests:
    message = f"The disruption budget {name} is still being processed by the server."
    return _budget_violation(message, retry_after=10)


def _budget_violation(message: str, *, retry_after: int) -> TooManyRequests:
    causes = [cause(reason="DisruptionBudget", message=message)]
    return TooManyRequests(_VIOLATION_MESSAGE, retry_after=retry_after, causes=causes)


def _with_resource_version(query: DeleteQuery, version: str) -> DeleteQuery:
    if query.preconditions.resource_version is not None:
        return query
    return replace(query, preconditions=replace(query.preconditions, resource_version=version))


async def _delete(server: Server, target: Target, query: DeleteQuery) -> None:
    """Set the DisruptionTarget condition of the pod, then delete it."""
    if not query.dry_run:
        now = timestamp(server.clock.now())

        def add_condition(pod: Tree | None) -> Tree:
            assert pod is not None
            check_delete_preconditions(pod, query.preconditions, target.resource)
            set_condition(
                pod,
                now,
                kind="DisruptionTarget",
                reason="EvictionByEvictionAPI",
                message="Eviction API: evicting",
            )
            return pod

        write = Write(subresource="binding")
        updated = await target.store.update(target.key, add_condition, write)
        if query.preconditions.resource_version is not None:
            query = replace(
                query,
                preconditions=replace(
                    query.preconditions, resource_version=str(updated.entry.revision)
                ),
            )
    await target.store.delete(target.key, query)
