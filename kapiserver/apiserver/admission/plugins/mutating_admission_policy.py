"""MutatingAdmissionPolicy: applies the mutations of the cluster's policies to objects.

Mirrors pkg/admission/plugin/policy/mutating of k8s.io/apiserver.
"""

from __future__ import annotations

import time
from collections.abc import Hashable

from msgspec import Struct

from kapiserver.api.accessors import name_of, namespace_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.activation import Activations
from kapiserver.apiserver.admission.expressions import ExpressionFailed, OutOfBudget
from kapiserver.apiserver.admission.invocations import Invocations, invocations_of
from kapiserver.apiserver.admission.matching.index import Candidate
from kapiserver.apiserver.admission.matching.rules import ResourceVariant
from kapiserver.apiserver.admission.matching.versioned_objects import VersionedObjects
from kapiserver.apiserver.admission.plugin import PluginContext
from kapiserver.apiserver.admission.policies.denials import Denial, error_type, mutation_denial
from kapiserver.apiserver.admission.policies.matches import (
    MisconfiguredPolicy,
    PolicyMatch,
    condition_labels,
    policy_match,
)
from kapiserver.apiserver.admission.policies.mutations import (
    MutatingEvaluator,
    Mutation,
    MutationFailed,
)
from kapiserver.apiserver.admission.policies.plugin import PolicyPlugin
from kapiserver.apiserver.admission.policies.source import Binding, Policy
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import InternalError
from kapiserver.apiserver.metrics import MutatingPolicyLabels
from kapiserver.codecs.cost import cost_of_tree

_PLUGIN = "MutatingAdmissionPolicy"
_FAILURES = (ExpressionFailed, OutOfBudget, MutationFailed, InternalError)


class _Invocation(Struct, frozen=True):
    """A policy, one of its bindings, and one parameter object."""

    policy: Policy[MutatingEvaluator]
    variant: ResourceVariant
    binding: Binding
    params: Tree | None

    @property
    def key(self) -> Hashable:
        """Identifies the invocation in both runs of the mutating plugins."""
        params = self.params or {}
        return self.policy.name, self.binding.name, namespace_of(params), name_of(params)


class MutatingAdmissionPolicy(PolicyPlugin[MutatingEvaluator]):
    """The plugin of one server."""

    def __init__(self, context: PluginContext) -> None:
        """Read the static manifests. Raises BadAdmissionConfiguration."""
        super().__init__(context, "MutatingAdmissionPolicy", MutatingEvaluator)

    async def admit(
        self, server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
    ) -> None:
        """Change the object as the policies that match the write say. Raises StatusError if one
        fails."""
        candidates = await self.candidates(server, attributes)
        record = invocations_of(attributes, _PLUGIN)
        record.begin(new)
        if not candidates or (record.is_over and not any(map(_has_conditions, candidates))):
            return
        objects = VersionedObjects(server, attributes.target, new, old)
        refusals: list[MisconfiguredPolicy] = []
        invocations = []
        for candidate in candidates:
            match = await policy_match(server, attributes, objects, candidate, refusals)
            if match is not None and await _is_convertible(match, objects, refusals):
                invocations += [
                    _Invocation(match.policy, match.variant, binding, param)
                    for binding, params in match.bindings
                    for param in params
                ]
        denials = [Denial(refusal.policy, refusal.binding, str(refusal)) for refusal in refusals]
        write = _Write(server, attributes, objects, denials)
        try:
            for invocation in invocations:
                await write.invoke(invocation, record)
        finally:
            record.end(new)
        if denials:
            raise mutation_denial(attributes, denials)


async def _is_convertible(
    match: PolicyMatch[MutatingEvaluator],
    objects: VersionedObjects,
    refusals: list[MisconfiguredPolicy],
) -> bool:
    """Report whether the object can be converted for a policy. Adds the error to `refusals`, unless
    the policy ignores failures."""
    try:
        await objects.object(match.variant.kind)
    except InternalError as error:
        if not match.policy.ignores_failures:
            refusals.append(MisconfiguredPolicy(match.policy.name, "", str(error)))
        return False
    return True


def _has_conditions(candidate: Candidate[Policy[MutatingEvaluator]]) -> bool:
    """Whether match conditions of a policy may fail in the second run, even if the policy is not
    due."""
    return bool(candidate.item.spec.get("matchConditions"))


class _Write:
    """The mutations of all policies for one write; adds failures to `denials`."""

    def __init__(
        self,
        server: Server,
        attributes: Attributes,
        objects: VersionedObjects,
        denials: list[Denial],
    ) -> None:
        self._server = server
        self._attributes = attributes
        self._objects = objects
        self._activations = Activations(server, attributes, objects)
        self._denials = denials

    async def invoke(self, invocation: _Invocation, record: Invocations) -> None:
        """Apply the mutations of a policy, in order."""
        policy, params = invocation.policy, invocation.params
        evaluator = await policy.compiled(self._server)
        labels = condition_labels(policy.name, self._attributes)
        try:
            activation = await self._activations.make(invocation.variant, evaluator.names)
            if not await evaluator.matches(activation, params, labels):
                return
        except _FAILURES as error:
            self._fail(invocation, error)
            return
        if record.is_skipped(invocation.key):
            return
        is_changed = False
        for mutation in evaluator.mutations:
            is_changed |= await self._mutate(invocation, evaluator, mutation)
        if is_changed:
            record.object_changed()
        if policy.spec.get("reinvocationPolicy") == "IfNeeded":
            record.invoked.add(invocation.key)

    async def _mutate(
        self, invocation: _Invocation, evaluator: MutatingEvaluator, mutation: Mutation
    ) -> bool:
        """Apply one mutation and return whether the object changed."""
        started, outcome = time.perf_counter(), error_type(None)
        try:
            obj = await self._objects.object(invocation.variant.kind)
            if obj is None:
                return False
            activation = await self._activations.make(invocation.variant, evaluator.names)
            composed = evaluator.with_variables(activation, invocation.params)
            value = await mutation.evaluate(composed)
            return await self._apply(invocation, mutation, obj, value)
        except _FAILURES as failure:
            outcome = error_type(failure)
            self._fail(invocation, failure)
            return False
        finally:
            labels = MutatingPolicyLabels(invocation.policy.name, invocation.binding.name, outcome)
            seconds = time.perf_counter() - started
            self._server.metrics.mutating_policy_seconds.observe(labels, seconds)

    async def _apply(
        self, invocation: _Invocation, mutation: Mutation, obj: Tree, value: object
    ) -> bool:
        kind, cost = invocation.variant.kind, cost_of_tree(obj) + cost_of_tree(value)
        run = self._server.offloader.run
        changed = await run(cost, mutation.apply, self._server.scheme, obj, kind, value)
        return await self._objects.replace(changed, kind)

    def _fail(self, invocation: _Invocation, error: Exception) -> None:
        if not invocation.policy.ignores_failures:
            policy, binding = invocation.policy.name, invocation.binding.name
            self._denials.append(Denial(policy, binding, str(error), "Invalid"))
