"""Table columns of the admissionregistration group.

Mirrors pkg/printers/internalversion of Kubernetes.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.columns import AGE, NAME, UNSET, Column, Columns, count, selector, text
from kapiserver.api.types import Tree


def _param_kind(policy: Tree) -> str:
    kind = value_at(policy, "spec", "paramKind")
    return UNSET if kind is None else f"{kind.get('apiVersion') or ''}/{kind.get('kind') or ''}"


_SELECTOR = selector("spec", "paramRef", "selector")


def _param_ref(binding: Tree) -> str:
    reference = value_at(binding, "spec", "paramRef")
    if reference is None:
        return UNSET
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    return str(_SELECTOR(binding)) if reference.get("selector") is not None else UNSET


_WEBHOOKS = Columns(
    (
        NAME,
        Column(
            "Webhooks",
            count("webhooks"),
            "Number of webhooks in the configuration.",
            type="integer",
        ),
        AGE,
    )
)
_BINDING = Columns(
    (
        NAME,
        Column("PolicyName", text("spec", "policyName"), "Name of the policy that is bound."),
        Column(
            "ParamRef",
            _param_ref,
            "Parameter object of the binding, or the selector that finds it.",
        ),
        AGE,
    )
)
_PARAM_KIND = Column("ParamKind", _param_kind, "Kind of the policy's parameter objects.")

COLUMNS: dict[str, Columns] = {
    "MutatingAdmissionPolicy": Columns(
        (
            NAME,
            Column(
                "Mutations",
                count("spec", "mutations"),
                "Number of mutations in the policy.",
                type="integer",
            ),
            _PARAM_KIND,
            AGE,
        )
    ),
    "MutatingAdmissionPolicyBinding": _BINDING,
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingAdmissionPolicy": Columns(
        (
            NAME,
            Column(
                "Validations",
                count("spec", "validations"),
                "Number of validations in the policy.",
                type="integer",
            ),
            _PARAM_KIND,
            AGE,
        )
    ),
    "ValidatingAdmissionPolicyBinding": _BINDING,
    "ValidatingWebhookConfiguration": _WEBHOOKS,
}
