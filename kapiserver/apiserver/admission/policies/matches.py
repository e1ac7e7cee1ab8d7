"""Which policies, bindings and parameters apply to a write.

Mirrors policy_dispatcher.go of pkg/admission/plugin/policy/generic in k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from kapiserver.api.errors import APIError
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.matching.index import Candidate
from kapiserver.apiserver.admission.matching.rules import ResourceVariant
from kapiserver.apiserver.admission.matching.versioned_objects import VersionedObjects
from kapiserver.apiserver.admission.policies.params import (
    ConfigurationError,
    ParamKind,
    read_param_kind,
)
from kapiserver.apiserver.admission.policies.source import Binding, Policy
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import InternalError
from kapiserver.apiserver.metrics import MatchConditionLabels
from kapiserver.storage.errors import StorageError

Compiled = TypeVar("Compiled")
_FAILURES = (ConfigurationError, APIError, InternalError, StorageError)
"""Errors while the objects that a policy or binding refers to are read."""


class PolicyMatch(Struct, Generic[Compiled], frozen=True, kw_only=True):
    """A policy that applies to a write.

    variant   the form of the write that the rules of the policy match
    bindings  the bindings that match it, with their parameter objects; None is the parameter of a
              policy or binding without parameters
    """

    policy: Policy[Compiled]
    variant: ResourceVariant
    bindings: Sequence[tuple[Binding, Sequence[Tree | None]]]


class MisconfiguredPolicy(ConfigurationError):
    """A policy or one of its bindings cannot be applied, and failures are not ignored."""

    def __init__(self, policy: str, binding: str, reason: str) -> None:
        part = "binding" if binding else "policy"
        super().__init__(f"failed to configure {part}: {reason}")
        self.policy = policy
        self.binding = binding


async def policy_match(
    server: Server,
    attributes: Attributes,
    objects: VersionedObjects,
    candidate: Candidate[Policy[Compiled]],
    refusals: list[MisconfiguredPolicy],
) -> PolicyMatch[Compiled] | None:
    """Return how a policy applies to a write, None if it does not. Adds errors in the configuration
    to `refusals`, unless the policy ignores failures."""
    policy = candidate.item
    try:
        variant = await candidate.criteria.match(server, attributes, candidate.matches, objects)
        if variant is None:
            return None
        kind = policy.spec.get("paramKind")
        param_kind = await read_param_kind(server, kind) if kind is not None else None
    except _FAILURES as error:
        _refuse(policy, None, error, refusals)
        return None
    bindings = []
    for bound in policy.bindings.candidates(attributes):
        try:
            params = await _binding_params(server, attributes, objects, bound, param_kind)
        except _FAILURES as error:
            _refuse(policy, bound.item, error, refusals)
            continue
        if params:
            bindings.append((bound.item, params))
    return PolicyMatch(policy=policy, variant=variant, bindings=bindings) if bindings else None


async def _binding_params(
    server: Server,
    attributes: Attributes,
    objects: VersionedObjects,
    bound: Candidate[Binding],
    param_kind: ParamKind | None,
) -> Sequence[Tree | None]:
    """Return the parameter objects of a binding that matches a write, None for a binding without
    parameters; empty if the binding does not match. Raises ConfigurationError, APIError,
    StorageError."""
    if await bound.criteria.match(server, attributes, bound.matches, objects) is None:
        return ()
    reference = bound.item.spec.get("paramRef")
    if param_kind is None or reference is None:
        return (None,)
    return await param_kind.collect(reference, attributes.namespace)


def condition_labels(policy: str, attributes: Attributes) -> MatchConditionLabels:
    """Return the metric labels of the match conditions of a policy."""
    return MatchConditionLabels(policy, "policy", "validate", attributes.operation)


def _refuse(
    policy: Policy[Compiled],
    binding: Binding | None,
    error: Exception,
    refusals: list[MisconfiguredPolicy],
) -> None:
    if not policy.ignores_failures:
        name = binding.name if binding is not None else ""
        refusals.append(MisconfiguredPolicy(policy.name, name, str(error)))
