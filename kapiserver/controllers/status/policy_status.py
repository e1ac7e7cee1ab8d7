"""Write the status of ValidatingAdmissionPolicies: the warnings of the type checker.

Mirrors pkg/controller/validatingadmissionpolicystatus of Kubernetes.
"""

from __future__ import annotations

from kapiserver.api.accessors import generation_of, is_terminating, value_at
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.subscriptions import Subscriptions
from kapiserver.controllers.loop.workqueue import WorkQueue
from kapiserver.controllers.loop.writing import suppress_reason
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange

NAME = "validatingadmissionpolicy-status-controller"
_VERSION = GroupVersion("admissionregistration.k8s.io", "v1")


class PolicyStatusController:
    """The control loop; its queue holds names of policies."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._server = server = context.server
        self._subscriptions = Subscriptions(server)
        self._queue: WorkQueue[str] = context.work_queue(self._reconcile, workers=5, name=NAME)

    async def start(self) -> None:
        """Subscribe to policies."""
        add = self._subscriptions.add
        self._policies = add(_VERSION, "validatingadmissionpolicies", self._on_policy)

    async def stop(self) -> None:
        """Stop, and cancel the reconciles in progress."""
        self._subscriptions.cancel()
        await self._queue.stop()

    def _on_policy(self, change: ObjectChange) -> None:
        if change.new is not None:
            self._queue.add(change.new.key.name)

    async def _reconcile(self, name: str) -> None:
        await self._subscriptions.wait_synced()
        entry = self._policies.lister.get(ObjectKey("", name))
        if entry is None:
            return
        policy = entry.tree()
        generation = generation_of(policy)
        observed = value_at(policy, "status", "observedGeneration") or 0
        if generation <= observed or is_terminating(policy):
            return
        warnings = await self._server.offloader.run_in_thread(
            self._warnings, policy.get("spec") or {}
        )
        await self._write(name, generation, warnings)

    def _warnings(self, spec: Tree) -> list[Tree]:
        from kapiserver.apiserver.admission.policies.type_checking import expression_warnings

        return expression_warnings(self._server.scheme, spec)

    async def _write(self, name: str, generation: int, warnings: list[Tree]) -> None:
        type_checking: Tree = {"expressionWarnings": warnings} if warnings else {}
        policy = {
            "kind": "ValidatingAdmissionPolicy",
            "apiVersion": str(_VERSION),
            "metadata": {"name": name},
            "status": {"observedGeneration": generation, "typeChecking": type_checking},
        }
        policies = self._context.resource(str(_VERSION), "validatingadmissionpolicies")
        with suppress_reason("NotFound"):
            await policies.apply(
                policy, manager=self._context.manager, subresource="status", force=1
            )
