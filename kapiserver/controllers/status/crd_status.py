"""Write the status of CustomResourceDefinitions: accepted names and conditions.

It runs on every server: the first one writes, the others find the status up to date. Mirrors the
naming, establishing, approval and structure controllers of k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kapiserver.api.accessors import is_terminating
from kapiserver.api.apiextensions.validation.approval import approval_of
from kapiserver.api.conditions import (
    condition,
    is_true,
    set_condition,
    without_condition,
)
from kapiserver.api.errors import Path
from kapiserver.api.go_format import join_errors
from kapiserver.api.types import Tree
from kapiserver.apiserver.customresources.custom_resources import APIEXTENSIONS
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import replace_fields
from kapiserver.storage.objects.lifecycle import timestamp

DEFINITIONS = "customresourcedefinitions"


class CRDStatusController(Controller[str]):
    """The control loop; its queue holds names of definitions. Names are accepted one definition at
    a time, so that two definitions cannot be given the same name."""

    def set_up(self) -> None:
        """Queue the present definitions, and definitions that change later."""
        self._custom = self.server.custom_resources
        self.add_subscription(self._custom.subscribe(self._on_definitions_changed))
        self._on_definitions_changed(list(self._custom.summaries))

    def _on_definitions_changed(self, names: Sequence[str]) -> None:
        """Queue definitions, and the others of their groups, whose names may be free now."""
        groups = {name.partition(".")[2] for name in names}
        for name, head in self._custom.summaries.items():
            is_affected = name.partition(".")[2] in groups and not is_terminating(head)
            if is_affected and not _is_up_to_date(head):
                self.queue.add(name)

    async def reconcile(self, name: str) -> None:
        """Write the status of a definition, unless it is up to date."""
        head = self._custom.summaries.get(name)
        if head is None or is_terminating(head) or _is_up_to_date(head):
            return
        await write_status(self.context, name, self._status_of_names)

    def _status_of_names(self, current: Tree) -> Tree:
        other_names = [
            head["status"]["acceptedNames"]
            for name, head in self._custom.summaries.items()
            if name != current["metadata"]["name"]
            and head["spec"]["group"] == current["spec"]["group"]
        ]
        return status_of(current, other_names, timestamp(self.clock.now()))


async def write_status(
    context: ControllerContext, name: str, new_status: Callable[[Tree], Tree]
) -> None:
    """Write the status of a definition that a function makes of the current definition. Raises
    StatusError."""

    def fields(current: Tree) -> Tree:
        status = new_status(current)
        return {} if status == current["status"] else {"/status": status}

    definitions = context.resource(str(APIEXTENSIONS), DEFINITIONS)
    await replace_fields(definitions, name, fields, subresource="status")


# The status: pure.

_NAMES = (
    ("plural", "PluralConflict", "resources"),
    ("singular", "SingularConflict", "resources"),
    ("shortNames", "ShortNamesConflict", "resources"),
    ("kind", "KindConflict", "kinds"),
    ("listKind", "ListKindConflict", "kinds"),
)


def _is_up_to_date(head: Tree) -> bool:
    """Return whether the status needs no write."""
    return (
        head["spec"]["names"] == head["status"]["acceptedNames"]
        and is_true(head, "NamesAccepted")
        and is_true(head, "Established")
        and _approval(head) == _approval_condition(head)
        and not _may_be_non_structural(head)
    )


def status_of(obj: Tree, other_names: Sequence[Tree], now: str) -> Tree:
    """Return the status of a definition; `other_names` are the accepted names of the other
    definitions of its group."""
    names, conflict = _accepted_names(obj, other_names)
    good = conflict is None
    reason_and_message = conflict or ("NoConflicts", "no conflicts found")
    status = {**obj["status"], "acceptedNames": _ordered_names(names)}
    status = set_condition(status, "NamesAccepted", str(good), *reason_and_message, now=now)
    if not is_true(obj, "Established"):
        reason_and_message = ("InitialNamesAccepted", "the initial names have been accepted")
        if not good:
            reason_and_message = ("NotAccepted", "not all names are accepted")
        status = set_condition(status, "Established", str(good), *reason_and_message, now=now)
    status = _with_structural_condition(status, obj, now)
    approval = _approval(obj)
    if approval is None:
        if condition(obj, _CONFORMANT) is not None:
            status = without_condition(status, _CONFORMANT)
        return status
    return set_condition(status, _CONFORMANT, *approval, now=now)


def _accepted_names(obj: Tree, other_names: Sequence[Tree]) -> tuple[Tree, tuple[str, str] | None]:
    """Return the names that a definition gets, and the reason and message of the last conflict. A
    name in conflict stays as it was accepted before."""
    requested: Tree = obj["spec"]["names"]
    accepted: Tree = obj["status"]["acceptedNames"]
    names_in_use = {
        "resources": {
            name
            for item in other_names
            for name in (item["plural"], item.get("singular"), *(item.get("shortNames") or ()))
        },
        "kinds": {name for item in other_names for name in (item["kind"], item.get("listKind"))},
    }
    names: Tree = dict(accepted)
    conflict = None
    for name, reason, among in _NAMES:
        problem = _name_conflict(requested.get(name), accepted.get(name), names_in_use[among])
        if problem:
            conflict = (reason, problem)
        elif requested.get(name):
            names[name] = requested[name]
        else:
            names.pop(name, None)
    names.pop("categories", None)
    if requested.get("categories"):
        names["categories"] = requested["categories"]
    return names, conflict


def _name_conflict(requested: object, accepted: object, names_in_use: set[str]) -> str:
    if isinstance(requested, list):
        accepted_names = accepted if isinstance(accepted, list) else ()
        matches = [
            f'"{item}" is already in use'
            for item in requested
            if item not in accepted_names and item in names_in_use
        ]
        return join_errors(matches)
    return (
        f'"{requested}" is already in use'
        if requested != accepted and requested in names_in_use
        else ""
    )


def _ordered_names(names: Tree) -> Tree:
    order = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
    return {name: names[name] for name in order if name in names}


_CONFORMANT = "KubernetesAPIApprovalPolicyConformant"


def _approval(obj: Tree) -> tuple[str, str, str] | None:
    """Return status, reason and message of the condition about a protected group, or None for other
    groups."""
    matches = approval_of(obj)
    if matches is None:
        return None
    state, message = matches
    return ("True" if state == "ApprovedAnnotation" else "False", state, message)


def _approval_condition(obj: Tree) -> tuple[str, str, str] | None:
    matches = condition(obj, _CONFORMANT)
    return None if matches is None else (matches["status"], matches["reason"], matches["message"])


_NON_STRUCTURAL = "NonStructuralSchema"


def _may_be_non_structural(obj: Tree) -> bool:
    """Return whether the definition may have a non-structural schema, as those converted from
    v1beta1 do."""
    return bool(obj["spec"].get("preserveUnknownFields")) or (
        condition(obj, _NON_STRUCTURAL) is not None
    )


def _with_structural_condition(status: Tree, obj: Tree, now: str) -> Tree:
    if not _may_be_non_structural(obj):
        return status
    from kapiserver.api.apiextensions.schema import structural_rules  # few definitions need it

    problems: list[str] = []
    for index, item in enumerate(obj["spec"]["versions"]):
        path = (Path("spec") / "versions")[index] / "schema.openAPIV3Schema"
        schema = (item.get("schema") or {}).get("openAPIV3Schema") or {}
        problems += map(str, structural_rules.check(schema, path) if schema else ())
    if not problems:
        return without_condition(status, _NON_STRUCTURAL)
    message = join_errors(problems)
    return set_condition(status, _NON_STRUCTURAL, "True", "Violations", message, now=now)
