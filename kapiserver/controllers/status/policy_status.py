"""Write the status of ValidatingAdmissionPolicies: the warnings of the type checker.

Mirrors pkg/controller/validatingadmissionpolicystatus of Kubernetes.
"""

from __future__ import annotations

from kapiserver.api.accessors import generation_of, is_terminating, value_at
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.writing import suppress_reason
from kapiserver.storage.cache.entry import ObjectKey

_VERSION = GroupVersion("admissionregistration.k8s.io", "v1")


class PolicyStatusController(Controller[ObjectKey]):
    """The control loop; its queue holds keys of policies."""

    workers = 5

    def set_up(self) -> None:
        """Watch policies."""
        self._policies = self.watch(_VERSION, "validatingadmissionpolicies", for_object)

    async def reconcile(self, key: ObjectKey) -> None:
        """Check the types of a policy whose spec has changed."""
        entry = self._policies.lister.get(key)
        if entry is None:
            return
        policy = entry.tree()
        generation = generation_of(policy)
        observed = value_at(policy, "status", "observedGeneration") or 0
        if generation <= observed or is_terminating(policy):
            return
        warnings = await self.server.offloader.run_in_thread(
            self._warnings, policy.get("spec") or {}
        )
        await self._write(key.name, generation, warnings)

    def _warnings(self, spec: Tree) -> list[Tree]:
        from kapiserver.apiserver.admission.policies.type_checking import expression_warnings

        return expression_warnings(self.server.scheme, spec)

    async def _write(self, name: str, generation: int, warnings: list[Tree]) -> None:
        type_checking: Tree = {"expressionWarnings": warnings} if warnings else {}
        policy = {
            "kind": "ValidatingAdmissionPolicy",
            "apiVersion": str(_VERSION),
            "metadata": {"name": name},
            "status": {"observedGeneration": generation, "typeChecking": type_checking},
        }
        policies = self.context.resource(str(_VERSION), "validatingadmissionpolicies")
        with suppress_reason("NotFound"):
            await policies.apply(
                policy, manager=self.context.manager, subresource="status", force=1
            )
