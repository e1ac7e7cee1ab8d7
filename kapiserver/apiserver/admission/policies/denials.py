"""The errors with which policies refuse writes.

Mirrors dispatcher.go of pkg/admission/plugin/policy/validating and policy_dispatcher.go of
pkg/admission/plugin/policy/generic in k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from kapiserver.api.go_format import quote
from kapiserver.api.resource_client import StatusError
from kapiserver.apiserver.admission.expressions import OutOfBudget
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.status import details, status

ErrorType: TypeAlias = Literal["no_error", "compile_error", "invalid_error", "out_of_budget"]
"""The metric label of an error."""
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


class Denial(Struct, frozen=True):
    """The decision of a policy to refuse a write. The binding is empty if the configuration of the
    policy is wrong, and the reason is empty if any configuration is wrong."""

    policy: str
    binding: str
    message: str
    reason: str = ""


def validation_denial(attributes: Attributes, denials: Sequence[Denial]) -> StatusError:
    """Return the error for the first denial of a validating policy."""
    denial = denials[0]
    binding = f" with binding '{denial.binding}'" if denial.binding else ""
    message = (
        f"ValidatingAdmissionPolicy '{denial.policy}'{binding} denied request: {denial.message}"
    )
    reason = denial.reason or "Invalid"
    text = str(attributes.forbidden(message))
    return _status_error(attributes, text, reason, _CODES.get(reason, 422), [message])


def mutation_denial(attributes: Attributes, denials: Sequence[Denial]) -> StatusError:
    """Return the error for the denials of mutating policies; the first one gives the message."""
    messages = [_mutation_message(denial) for denial in denials]
    reason = denials[0].reason or "Forbidden"
    return _status_error(attributes, messages[0], reason, 403, messages)


def _mutation_message(denial: Denial) -> str:
    if denial.binding:
        policy = f"policy '{denial.policy}' with binding '{denial.binding}'"
    else:
        policy = f"policy {quote(denial.policy)}"
    return f"{policy} denied request: {denial.message}"


def _status_error(
    attributes: Attributes, message: str, reason: str, code: int, causes: Sequence[str]
) -> StatusError:
    resource = attributes.target.resource
    status_details = details(
        name=attributes.name_in_errors,
        group=resource.group,
        kind=resource.name,
        causes=[{"message": cause} for cause in causes],
    )
    tree = status(code=code, reason=reason, message=message, details=status_details)
    return StatusError(tree, code)


def error_type(error: Exception | None) -> ErrorType:
    """Return the metric label of an error of an expression, or of no error."""
    if error is None:
        return "no_error"
    if isinstance(error, OutOfBudget):
        return "out_of_budget"
    return "compile_error" if str(error).startswith("compilation error") else "invalid_error"
