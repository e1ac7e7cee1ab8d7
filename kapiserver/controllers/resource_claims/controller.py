"""The controller of ResourceClaims: it makes the claims that pods need, and frees those that no pod
needs any more.

| item | what is done |
| --- | --- |
| pod | claims are made from templates, and their names are written to the status |
| pod with a node | allocated claims are reserved for it, if another scheduler has bound it |
| claim | pods that have ended are removed from reservedFor |
| claim without pods | devices and finalizer are freed; it is deleted if its own pod has ended |

A claim outlives a pod that shares it; a generated claim ends with its pod. Mirrors
pkg/controller/resourceclaim, without groups of pods, which are off by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from kapiserver.api.accessors import (
    annotations_of,
    finalizers_of,
    is_terminating,
    name_of,
    uid_of,
    value_at,
)
from kapiserver.api.group import CORE
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import owner_uids
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import delete_object, suppress_reason, update_object
from kapiserver.controllers.resource_claims.pod_claims import (
    FINALIZER,
    POD_CLAIM_NAME,
    RESOURCE,
    ClaimProblem,
    allocation_of,
    check_owner,
    claim_name,
    claim_names,
    consumer_reference,
    generated_claim,
    is_done,
    is_reserved_for,
    owning_pod,
    pod_claims_of,
    template_names,
)
from kapiserver.controllers.workloads.pods import node_of
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange

_MANAGER = "ResourceClaimController"
_FAILED = "FailedResourceClaimCreation"


class ClaimItem(NamedTuple):
    """What the queue holds: a pod or a claim."""

    what: Literal["pod", "claim"]
    key: ObjectKey


def _namespaced(entry: Entry, names: Iterable[str]) -> list[str]:
    return [f"{entry.key.namespace}/{name}" for name in names]


class ResourceClaimController(Controller[ClaimItem]):
    """Makes, reserves, releases and deletes claims."""

    workers = 10

    def set_up(self) -> None:
        """Watch templates, claims and pods."""
        self._events = EventRecorder(self.context, "resource_claim")
        self._pods_by_claim = Index(lambda entry: _namespaced(entry, claim_names(entry.tree())))
        self._pods_by_template = Index(
            lambda entry: _namespaced(entry, template_names(entry.tree()))
        )
        self._claims_by_owner = Index(owner_uids)
        self._templates = self.watch(RESOURCE, "resourceclaimtemplates", self._on_template)
        self._claims = self.watch(RESOURCE, "resourceclaims", self._on_claim, self._claims_by_owner)
        self._pods = self.watch(
            CORE, "pods", self._on_pod, self._pods_by_claim, self._pods_by_template
        )

    def _on_template(self, change: ObjectChange) -> Iterator[ClaimItem]:
        for pod in self._pods_by_template.get("/".join(change.last.key)):
            yield ClaimItem("pod", pod.key)

    def _on_claim(self, change: ObjectChange) -> Iterator[ClaimItem]:
        if change.new is not None:
            yield ClaimItem("claim", change.new.key)
        for pod in self._pods_by_claim.get("/".join(change.last.key)):
            yield ClaimItem("pod", pod.key)

    def _on_pod(self, change: ObjectChange) -> Iterator[ClaimItem]:
        pod = change.last.tree()
        if change.new is None or is_done(pod):
            for name in claim_names(pod):
                yield ClaimItem("claim", ObjectKey(change.last.key.namespace, name))
        elif pod_claims_of(pod) and not is_terminating(pod):
            yield ClaimItem("pod", change.last.key)

    async def reconcile(self, item: ClaimItem) -> None:
        """Bring the claims of a pod, or one claim, to what they should be."""
        informer = self._pods if item.what == "pod" else self._claims
        entry = informer.lister.get(item.key)
        if entry is None:
            return
        if item.what == "pod":
            await self._sync_pod(item.key, entry.tree())
        else:
            await self._sync_claim(item.key, entry.tree())

    def _claims_of(self, key: ObjectKey) -> ResourceClient:
        return self.context.resource(str(RESOURCE), "resourceclaims", namespace=key.namespace)

    # Pods.

    async def _sync_pod(self, key: ObjectKey, pod: Tree) -> None:
        if is_terminating(pod):
            return
        made: dict[str, str] = {}
        for reference in pod_claims_of(pod):
            try:
                name = await self._ensure_claim(key, pod, reference)
            except StatusError as error:
                await self._warn(pod, reference, str(error))
                raise
            if name:
                made[reference["name"]] = name
        if made:
            await self._write_names(key, pod, made)
        if node_of(pod):
            await self._reserve(key, pod)

    async def _ensure_claim(self, key: ObjectKey, pod: Tree, reference: Tree) -> str:
        """Return the name of a claim that the status of the pod does not have yet, or ""; make the
        claim if it does not exist."""
        template_name = reference.get("resourceClaimTemplateName")
        if not template_name or self._has_claim(key, pod, reference):
            return ""
        await self._claims.fresh()  # a claim that has just been made is not made again
        orphan = self._claim_of(pod, reference)
        if orphan is not None:
            return name_of(orphan)
        template = self._templates.lister.get(ObjectKey(key.namespace, template_name))
        if template is None:  # its creation queues the pod
            problem = f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            await self._warn(
                pod, reference, f'resource claim template "{template_name}": {problem}'
            )
            return ""
        claim = generated_claim(pod, reference, template.tree())
        return name_of(await self._claims_of(key).create(claim))

    def _has_claim(self, key: ObjectKey, pod: Tree, reference: Tree) -> bool:
        try:
            name = claim_name(pod, reference)
            claim = self._claims.lister.get(ObjectKey(key.namespace, name)) if name else None
            if claim is not None:
                check_owner(pod, reference, claim.tree())
        except ClaimProblem:
            return False
        return not name or claim is not None

    def _claim_of(self, pod: Tree, reference: Tree) -> Tree | None:
        """Return the claim that was made for a reference of the pod, or None."""
        for entry in self._claims_by_owner.get(uid_of(pod)):
            if annotations_of(entry.tree()).get(POD_CLAIM_NAME) == reference["name"]:
                return entry.tree()
        return None

    async def _warn(self, pod: Tree, reference: Tree, problem: str) -> None:
        await self._events.warn(pod, _FAILED, f"PodResourceClaim {reference['name']}: {problem}")

    async def _write_names(self, key: ObjectKey, pod: Tree, made: dict[str, str]) -> None:
        """Write the names of generated claims to the status of the pod."""
        names = {
            claim_status["name"]: claim_status["resourceClaimName"]
            for claim_status in value_at(pod, "status", "resourceClaimStatuses") or ()
            if claim_status.get("resourceClaimName")
        } | made
        statuses = [{"name": name, "resourceClaimName": names[name]} for name in sorted(names)]
        desired = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid_of(pod)},
            "status": {"resourceClaimStatuses": statuses},
        }
        pods = self.context.resource("v1", "pods", namespace=key.namespace)
        with suppress_reason("NotFound", "Conflict"):  # the pod is gone
            await pods.apply(desired, manager=_MANAGER, subresource="status", force="true")

    async def _reserve(self, key: ObjectKey, pod: Tree) -> None:
        """Reserve the allocated claims of a pod that has a node."""
        for name in claim_names(pod):
            entry = self._claims.lister.get(ObjectKey(key.namespace, name))
            if entry is None or allocation_of(entry.tree()) is None:
                continue

            def reserve(claim: Tree) -> Tree:
                if allocation_of(claim) is not None and not is_reserved_for(pod, claim):
                    consumers = value_at(claim, "status", "reservedFor") or []
                    claim["status"]["reservedFor"] = [*consumers, consumer_reference(pod)]
                return claim

            if not is_reserved_for(pod, entry.tree()):
                await update_object(self._claims_of(key), name, reserve, subresource="status")

    # Claims.

    async def _sync_claim(self, key: ObjectKey, claim: Tree) -> None:
        consumers = value_at(claim, "status", "reservedFor") or []
        remaining = [consumer for consumer in consumers if await self._needs_claim(key, consumer)]
        is_deleted = is_terminating(claim) and FINALIZER in finalizers_of(claim)
        if len(remaining) < len(consumers) or (is_deleted and not remaining):
            await self._release(key, claim, remaining)
        if not remaining and self._has_ended(key, owning_pod(claim)):
            await delete_object(self._claims_of(key), key.name, uid=uid_of(claim))

    async def _needs_claim(self, key: ObjectKey, consumer: Tree) -> bool:
        """Report whether a consumer may still use a claim; consumers other than pods may."""
        if consumer.get("apiGroup") or consumer.get("resource") != "pods":
            return True
        pod = await self._pod(ObjectKey(key.namespace, consumer["name"]))
        return pod is not None and uid_of(pod) == consumer.get("uid") and not is_done(pod)

    async def _pod(self, key: ObjectKey) -> Tree | None:
        """Return a pod, also one that the informer does not have yet."""
        entry = self._pods.lister.get(key)
        if entry is not None:
            return entry.tree()
        pods = self.context.resource("v1", "pods", namespace=key.namespace)
        with suppress_reason("NotFound"):
            return await pods.shared.get(key.name)
        return None

    async def _release(self, key: ObjectKey, claim: Tree, remaining: list[Tree]) -> None:
        """Remove pods from reservedFor; without any, also the allocation and the finalizer."""
        claims = self._claims_of(key)
        status = dict(claim.get("status") or {})
        if remaining:
            status["reservedFor"] = remaining
        else:
            status.pop("reservedFor", None)
            if FINALIZER in finalizers_of(claim):
                status.pop("allocation", None)
        # A change since the informer delivered the claim ends this with a Conflict, and with the
        # next reconcile.
        with suppress_reason("NotFound"):
            if status != claim.get("status"):
                claim = await claims.update({**claim, "status": status}, subresource="status")
            if FINALIZER in finalizers_of(claim) and allocation_of(claim) is None:
                others = [finalizer for finalizer in finalizers_of(claim) if finalizer != FINALIZER]
                await claims.update(
                    {**claim, "metadata": claim["metadata"] | {"finalizers": others}}
                )

    def _has_ended(self, key: ObjectKey, owner: Tree | None) -> bool:
        """Report whether the pod that a claim was made for will not run; a pod that is gone is left
        to garbage collection."""
        entry = None
        if owner is not None:
            entry = self._pods.lister.get(ObjectKey(key.namespace, owner["name"]))
        if owner is None or entry is None:
            return False
        return uid_of(entry.tree()) != owner.get("uid") or is_done(entry.tree())
