"""The base of the plugins ValidatingAdmissionPolicy and MutatingAdmissionPolicy.

A plugin subscribes to its policies at the first write. Mirrors
pkg/admission/plugin/policy/generic/plugin.go of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic

from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.manifest_configuration import (
    load_static_manifests,
    read_policy_manifests_dir,
)
from kapiserver.apiserver.admission.matching.index import Candidate
from kapiserver.apiserver.admission.plugin import PluginContext
from kapiserver.apiserver.admission.policies.source import Compiled, Policy, PolicySource
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server


class PolicyPlugin(Generic[Compiled]):
    """The policies of one kind.

    kind          the kind of the policies; that of the bindings ends with Binding
    compile_spec  compiles the spec of a policy
    """

    def __init__(
        self, context: PluginContext, kind: str, compile_spec: Callable[[Tree], Compiled]
    ) -> None:
        """Read the static manifests. Raises BadAdmissionConfiguration."""
        policies = f"{kind.lower().removesuffix('y')}ies"
        self._resources = policies, f"{kind.lower()}bindings"
        kinds = dict(zip((kind, f"{kind}Binding"), self._resources, strict=True))
        folder = read_policy_manifests_dir(context.configuration, kind)
        self._manifests = load_static_manifests(context, folder, kinds)
        self._compile_spec = compile_spec
        self._source: PolicySource[Compiled] | None = None

    def is_idle(self, _server: Server, attributes: Attributes) -> bool:
        """Whether it is known already that no rule of a policy matches a write."""
        return self._source is not None and self._source.is_idle(attributes)

    async def candidates(
        self, server: Server, attributes: Attributes
    ) -> Sequence[Candidate[Policy[Compiled]]]:
        """Return the policies whose rules match a write. Raises StorageError."""
        if self._source is None:
            self._source = PolicySource(
                server, *self._resources, self._compile_spec, self._manifests
            )
            self._source.start()
        return await self._source.candidates(attributes)

    async def close(self) -> None:
        """Cancel the subscriptions to the policies. Idempotent."""
        if self._source is not None:
            self._source.stop()
