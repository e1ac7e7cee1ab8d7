"""ValidatingAdmissionPolicy: refuses writes that break policies of the cluster.

Mirrors pkg/admission/plugin/policy/validating of k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.activation import Activations
from kapiserver.apiserver.admission.matching.versioned_objects import VersionedObjects
from kapiserver.apiserver.admission.plugin import PluginContext
from kapiserver.apiserver.admission.policies.denials import Denial, validation_denial
from kapiserver.apiserver.admission.policies.matches import (
    MisconfiguredPolicy,
    PolicyMatch,
    condition_labels,
    policy_match,
)
from kapiserver.apiserver.admission.policies.plugin import PolicyPlugin
from kapiserver.apiserver.admission.policies.source import Binding
from kapiserver.apiserver.admission.policies.validations import (
    AuditAnnotation,
    Decision,
    ValidatingEvaluator,
)
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import InternalError
from kapiserver.apiserver.metrics import PolicyLabels
from kapiserver.codecs import json

_FAILURE = "validation.policy.admission.k8s.io/validation_failure"
_MAX_ANNOTATION = 10 * 1024
"""The maximum length of a value of an audit annotation, in characters."""


class ValidatingAdmissionPolicy(PolicyPlugin[ValidatingEvaluator]):
    """The plugin of one server."""

    def __init__(self, context: PluginContext) -> None:
        """Read the static manifests. Raises BadAdmissionConfiguration."""
        super().__init__(context, "ValidatingAdmissionPolicy", ValidatingEvaluator)

    async def validate(
        self, server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
    ) -> None:
        """Evaluate the policies that match a write. Raises StatusError if one denies it."""
        candidates = await self.candidates(server, attributes)
        if not candidates:
            return
        objects = VersionedObjects(server, attributes.target, new, old)
        write = _Write(server, attributes, Activations(server, attributes, objects))
        for candidate in candidates:
            refusals: list[MisconfiguredPolicy] = []
            match = await policy_match(server, attributes, objects, candidate, refusals)
            for refusal in refusals:
                write.denials.append(Denial(refusal.policy, refusal.binding, str(refusal)))
            if match is not None:
                await write.evaluate(match)
        if write.denials:
            raise validation_denial(attributes, write.denials)


class _Write:
    """The decisions of all policies on one write; `denials` are those that refuse it."""

    def __init__(self, server: Server, attributes: Attributes, activations: Activations) -> None:
        self._server = server
        self._attributes = attributes
        self._activations = activations
        self.denials: list[Denial] = []

    async def evaluate(self, match: PolicyMatch[ValidatingEvaluator]) -> None:
        """Evaluate a policy for each of its bindings and parameter objects."""
        policy = match.policy
        evaluator = await policy.compiled(self._server)
        try:
            activation = await self._activations.make(match.variant, evaluator.names)
        except InternalError as error:
            if not policy.ignores_failures:
                message = f"failed to convert object version: {error}"
                refusal = MisconfiguredPolicy(policy.name, "", message)
                self.denials.append(Denial(policy.name, "", str(refusal)))
            return
        annotations: dict[str, list[str]] = {}
        labels = condition_labels(policy.name, self._attributes)
        for binding, params in match.bindings:
            for parameter in params:
                decisions, audit = await evaluator.evaluate(activation, parameter, labels)
                for decision in decisions:
                    self._apply(policy.name, binding, decision)
                for annotation in audit:
                    self._annotate(policy.name, binding, annotation, annotations)
        for key, values in annotations.items():
            name = f"{policy.name}/{key}"
            self._attributes.audit.annotations.setdefault(name, ", ".join(values))

    def _apply(self, policy: str, binding: Binding, decision: Decision) -> None:
        """Act on a decision as the binding says."""
        if not decision.is_denied:
            if decision.error_type != "no_error":
                self._count(policy, binding, decision, "allow")
            return
        message = decision.message
        for action in binding.spec.get("validationActions") or ():
            if action == "Deny":
                self.denials.append(Denial(policy, binding.name, message, decision.reason))
                self._count(policy, binding, decision, "deny")
            elif action == "Audit":
                self._attributes.audit.annotations.setdefault(
                    _FAILURE, _failure(policy, binding, decision)
                )
                self._count(policy, binding, decision, "audit")
            elif action == "Warn":
                self._attributes.warnings.add(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding "
                    f"'{binding.name}': {message}"
                )
                self._count(policy, binding, decision, "warn")

    def _count(self, policy: str, binding: Binding, decision: Decision, action: str) -> None:
        labels = PolicyLabels(policy, binding.name, decision.error_type, action)
        self._server.metrics.validating_policy_seconds.observe(labels, decision.seconds)

    def _annotate(
        self,
        policy: str,
        binding: Binding,
        annotation: AuditAnnotation,
        annotations: dict[str, list[str]],
    ) -> None:
        if annotation.error:
            self.denials.append(Denial(policy, binding.name, annotation.error))
            labels = PolicyLabels(policy, binding.name, annotation.error_type, "deny")
            self._server.metrics.validating_policy_seconds.observe(labels, 0.0)
        elif annotation.value:
            values = annotations.setdefault(annotation.key, [])
            value = annotation.value[:_MAX_ANNOTATION]
            if value not in values:
                values.append(value)


def _failure(policy: str, binding: Binding, decision: Decision) -> str:
    """Return the audit annotation of a failed validation, escaped as Go escapes JSON."""
    failure = {
        "message": decision.message,
        "policy": policy,
        "binding": binding.name,
        "expressionIndex": decision.index,
        "validationActions": binding.spec.get("validationActions") or [],
    }
    return json.encode_value([failure]).decode()
