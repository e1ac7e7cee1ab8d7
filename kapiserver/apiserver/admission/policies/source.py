"""The policies of one kind that have bindings; a policy is compiled again after each change.

Mirrors policy_source.go of pkg/admission/plugin/policy/generic in k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from kapiserver.api.accessors import generation_of, name_of, uid_of
from kapiserver.api.admissionregistration.validation.expressions import text_length
from kapiserver.api.errors import BadObject
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.expressions import compile_cost
from kapiserver.apiserver.admission.matching.criteria import Criteria, match_resources_criteria
from kapiserver.apiserver.admission.matching.index import Candidate, MatchIndex
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.storage.concurrency.time_slice import TimeSlice
from kapiserver.storage.errors import Corrupt
from kapiserver.storage.objects.informer import Informer, InformerSubscription, ObjectChange

if TYPE_CHECKING:
    from kapiserver.apiserver.admission.static_manifests import StaticManifests

GROUP_VERSION = GroupVersion("admissionregistration.k8s.io", "v1")
_log = logging.getLogger(__name__)

Compiled = TypeVar("Compiled")


class Binding(Struct, frozen=True, kw_only=True, eq=False):
    """One binding of a policy. `spec` is shared: never change it."""

    name: str
    spec: Tree


class Policy(Generic[Compiled]):
    """One policy with its bindings. `spec` is shared: never change it."""

    def __init__(
        self,
        name: str,
        spec: Tree,
        version: object,
        bindings: MatchIndex[Binding],
        compile_spec: Callable[[Tree], Compiled],
    ) -> None:
        self.name = name
        self.spec = spec
        self.version = version
        self.bindings = bindings
        self._compile_spec = compile_spec
        self._compiled: Compiled | None = None

    @property
    def ignores_failures(self) -> bool:
        """Whether a write passes when the policy cannot be evaluated."""
        return self.spec.get("failurePolicy") == "Ignore"

    async def compiled(self, server: Server) -> Compiled:
        """Return the compiled policy. The first call compiles it, in a thread if that takes long.
        Raises TooMuchWork."""
        if self._compiled is None:
            cost = compile_cost(text_length(self.spec))
            run = server.offloader.run
            self._compiled = await run(cost, self._compile_spec, self.spec)
        return self._compiled


class PolicySource(Generic[Compiled]):
    """The policies of one resource that have bindings, in order of their names.

    policies, bindings  plural names of the resources
    compile_spec        compiles the spec of a policy
    manifests           policies and bindings that are not objects of the API; they come first
    """

    def __init__(
        self,
        server: Server,
        policies: str,
        bindings: str,
        compile_spec: Callable[[Tree], Compiled],
        manifests: StaticManifests | None = None,
    ) -> None:
        self._resources = policies, bindings
        self._manifests = manifests
        self._scheme = server.scheme
        self._offloader = server.offloader
        self._policies = server.stores.by_name(GROUP_VERSION, policies).informer
        self._bindings = server.stores.by_name(GROUP_VERSION, bindings).informer
        self._compile_spec = compile_spec
        self._policies_by_name: dict[str, Policy[Compiled]] = {}
        self._index: MatchIndex[Policy[Compiled]] | None = None
        self._subscriptions: tuple[InformerSubscription, ...] = ()
        self._is_ready = False
        self._changes = 0
        self._indexing = asyncio.Lock()

    def start(self) -> None:
        """Subscribe to the informers of the policies and their bindings."""
        self._subscriptions = (
            self._policies.subscribe_batches(self._on_policy_changes),
            self._bindings.subscribe_batches(self._on_changes),
        )
        if self._manifests is not None:
            self._manifests.start(self._drop_index)

    def stop(self) -> None:
        """Cancel the subscriptions."""
        for subscription in self._subscriptions:
            subscription.cancel()
        if self._manifests is not None:
            self._manifests.stop()

    async def candidates(self, attributes: Attributes) -> Sequence[Candidate[Policy[Compiled]]]:
        """Return the policies whose rules match a request. Raises StorageError if the policies have
        never been read and cannot be read now."""
        if not self._is_ready:
            for subscription in self._subscriptions:
                await subscription.wait_synced()
            self._is_ready = True
        index = self._index
        if index is None:
            async with self._indexing:
                index = self._index or await self._make_index()
        return index.candidates(attributes)

    def is_idle(self, attributes: Attributes) -> bool:
        """Whether it is known already that no rule of a policy matches a request."""
        return self._index is not None and not self._index.candidates(attributes)

    def _on_policy_changes(self, changes: Sequence[ObjectChange]) -> None:
        if any(map(_changes_spec, changes)):
            self._on_changes(changes)

    def _on_changes(self, _changes: Sequence[ObjectChange]) -> None:
        self._drop_index()

    def _drop_index(self) -> None:
        self._index = None
        self._changes += 1

    async def _make_index(self) -> MatchIndex[Policy[Compiled]]:
        """Return the index of the present policies; the next request makes another if they change
        meanwhile."""
        changes = self._changes
        index = MatchIndex(self._scheme, await self._bound_policies(), self._static_policies())
        if changes == self._changes:
            self._index = index
        return index

    def _static_policies(self) -> list[tuple[Criteria, Policy[Compiled]]]:
        if self._manifests is None:
            return []
        policies, bindings = (self._manifests.objects[resource] for resource in self._resources)
        by_policy: dict[str, list[tuple[Criteria, Binding]]] = {}
        for tree in bindings:
            _add_binding(tree, by_policy)
        return [
            (
                match_resources_criteria(tree["spec"].get("matchConstraints")),
                Policy(
                    name_of(tree),
                    tree["spec"],
                    None,
                    MatchIndex(self._scheme, (), by_policy.get(name_of(tree), ())),
                    self._compile_spec,
                ),
            )
            for tree in policies
        ]

    async def _bound_policies(self) -> list[tuple[Criteria, Policy[Compiled]]]:
        bindings = await self._bindings_by_policy()
        previous_policies, self._policies_by_name = self._policies_by_name, {}
        policies = []
        async for tree in self._trees(self._policies):
            name, spec = name_of(tree), tree.get("spec") or {}
            criteria = _criteria(tree, spec.get("matchConstraints"))
            if name not in bindings or criteria is None:
                continue
            version = _version(tree)
            index = MatchIndex(self._scheme, bindings[name])
            policy = previous_policies.get(name)
            if policy is None or policy.version != version:
                policy = Policy(name, spec, version, index, self._compile_spec)
            policy.bindings = index
            self._policies_by_name[name] = policy
            policies.append((criteria, policy))
        return policies

    async def _bindings_by_policy(self) -> dict[str, list[tuple[Criteria, Binding]]]:
        bindings: dict[str, list[tuple[Criteria, Binding]]] = {}
        async for tree in self._trees(self._bindings):
            _add_binding(tree, bindings)
        return bindings

    async def _trees(self, informer: Informer) -> AsyncIterator[Tree]:
        """Yield the objects of an informer, sorted by name, in time slices."""
        time_slice = TimeSlice()
        for entry in informer.lister.list():
            try:
                yield await self._offloader.tree(entry, limited=False)
            except Corrupt as error:
                _log.warning("an admission policy or binding is ignored: %s", error)
            await time_slice.yield_if_expired()


def _add_binding(tree: Tree, bindings: dict[str, list[tuple[Criteria, Binding]]]) -> None:
    """Add a binding to those of its policy, by the policy's name."""
    spec = tree.get("spec") or {}
    criteria = _criteria(tree, spec.get("matchResources"))
    if criteria is not None:
        binding = Binding(name=name_of(tree), spec=spec)
        bindings.setdefault(spec.get("policyName") or "", []).append((criteria, binding))


def _version(policy: Tree) -> object:
    """Return a value that changes with the spec of a policy, but not with its status."""
    return uid_of(policy), generation_of(policy)


def _changes_spec(change: ObjectChange) -> bool:
    """Whether a change concerns more than the status or metadata of a policy. Large policies count
    as changed: decoding them would hold the event loop."""
    old, new = change.old, change.new
    if old is None or new is None or old.is_large or new.is_large:
        return True
    try:
        return _version(old.tree()) != _version(new.tree())
    except Corrupt:
        return True


def _criteria(obj: Tree, match: Tree | None) -> Criteria | None:
    try:
        return match_resources_criteria(match)
    except BadObject as error:
        # Validation refuses such a selector; an older server may have stored it.
        _log.warning("the admission policy or binding %s is ignored: %s", name_of(obj), error)
        return None
