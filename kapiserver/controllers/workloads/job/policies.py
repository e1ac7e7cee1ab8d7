"""The policies of a Job: what a pod's failure means, and when the Job has succeeded.

Mirrors pod_failure_policy.go and success_policy.go of pkg/controller/job.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from msgspec import Struct

from kapiserver.api.accessors import is_terminating, name_of, namespace_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.job.indexes import parse_indexes
from kapiserver.controllers.workloads.pods import phase_of


class Verdict(Struct, frozen=True):
    """What the failure policy says of a failed pod.

    counts       whether the failure counts towards the backoff limits
    action       the action of the rule that matched, or ""
    job_failure  the message with which the Job fails, or ""
    """

    counts: bool = True
    action: str = ""
    job_failure: str = ""


_COUNTED = Verdict()


def replaces_failed_only(job: Tree) -> bool:
    """Report whether a pod is replaced only after it has ended."""
    return bool(value_at(job, "spec", "podReplacementPolicy") == "Failed")


def has_failed(pod: Tree, job: Tree) -> bool:
    """Report whether a pod counts as failed, which a deleted pod may do before it has ended."""
    if phase_of(pod) == "Failed":
        return True
    if replaces_failed_only(job):
        return False
    return is_terminating(pod) and phase_of(pod) != "Succeeded"


def verdict_on(pod: Tree, job: Tree) -> Verdict:
    """Return what the Job's podFailurePolicy says of a failed pod."""
    rules = value_at(job, "spec", "podFailurePolicy", "rules") or ()
    for number, rule in enumerate(rules):
        reason = _reason(pod, rule)
        if reason:
            action = rule.get("action") or ""
            message = f"{reason} matching {action} rule at index {number}"
            return Verdict(
                counts=action != "Ignore",
                action=action,
                job_failure=message if action == "FailJob" else "",
            )
    return _COUNTED


def _reason(pod: Tree, rule: Tree) -> str:
    """Return why a rule matches a pod, or ""."""
    title = f"{namespace_of(pod)}/{name_of(pod)}"
    codes = rule.get("onExitCodes")
    if codes is not None:
        for name, code in _exit_codes(pod):
            if _matches(codes, name, code):
                return f"Container {name} for pod {title} failed with exit code {code}"
        return ""
    patterns = rule.get("onPodConditions") or ()
    for condition in value_at(pod, "status", "conditions") or ():
        for pattern in patterns:
            same_status = condition.get("status") == pattern.get("status", "True")
            if condition.get("type") == pattern.get("type") and same_status:
                return f"Pod {title} has condition {condition['type']}"
    return ""


def _exit_codes(pod: Tree) -> Iterable[tuple[str, int]]:
    """Yield the names and exit codes of the containers that failed."""
    for field in ("containerStatuses", "initContainerStatuses"):
        for status in value_at(pod, "status", field) or ():
            code = value_at(status, "state", "terminated", "exitCode")
            if code:
                yield status.get("name") or "", code


def _matches(codes: Tree, name: str, code: int) -> bool:
    if codes.get("containerName") not in (None, name):
        return False
    is_listed = code in (codes.get("values") or ())
    return is_listed if codes.get("operator") == "In" else not is_listed


def met_success_rule(job: Tree, succeeded: Set[int], completions: int) -> str:
    """Return the message of the first rule of the Job's successPolicy that is met, or ""."""
    rules = value_at(job, "spec", "successPolicy", "rules") or ()
    for number, rule in enumerate(rules if succeeded else ()):
        count = rule.get("succeededCount")
        listed = rule.get("succeededIndexes")
        if listed is None:
            is_met = count is not None and len(succeeded) >= count
        else:
            required = parse_indexes(listed, completions)
            done = len(required & succeeded)
            is_met = bool(required) and (
                done == len(required) or (count is not None and done >= count)
            )
        if is_met:
            return f"Matched rules at index {number}"
    return ""
