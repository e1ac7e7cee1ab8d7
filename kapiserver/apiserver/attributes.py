"""The attributes of a write that admission plugins see."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from kapiserver.api.types import Tree
from kapiserver.apiserver.caller import AuditNotes, Warnings
from kapiserver.apiserver.errors import Forbidden
from kapiserver.apiserver.target import Target
from kapiserver.apiserver.user import User

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


_OPTIONS_KINDS = {
    "CREATE": "CreateOptions",
    "UPDATE": "UpdateOptions",
    "DELETE": "DeleteOptions",
}


class Reinvocation(Struct):
    """Whether the mutating plugins run a second time, because a webhook or a policy changed the
    object after others had seen it. Mirrors ReinvocationContext of k8s.io/apiserver/pkg/admission.

    is_running   whether this is the second run
    is_required  whether a plugin changed the object in the first run, so that there is a second
    states       what each plugin remembers from the first run, by the plugin's name
    """

    is_running: bool = False
    is_required: bool = False
    states: dict[str, Any] = field(default_factory=dict)


class Attributes(Struct, frozen=True, kw_only=True):
    """The attributes of one write.

    verb         the verb of the request
    name         the name; empty if the server has yet to generate it, with `generate_name` as its
                 start, and for the objects of a collection that is deleted
    audit        notes for the audit event
    options      the CreateOptions, UpdateOptions, PatchOptions or DeleteOptions of the request,
                 without kind
    """

    operation: Operation
    target: Target
    user: User
    warnings: Warnings
    audit: AuditNotes
    name: str
    verb: str = ""
    generate_name: str = ""
    options: Tree = field(default_factory=dict)
    dry_run: bool = False
    reinvocation: Reinvocation = field(default_factory=Reinvocation)

    @property
    def namespace(self) -> str:
        """The namespace of the request, which is the namespace itself for a write of one."""
        return self.name if self.target.is_namespace else self.target.key.namespace

    @property
    def operation_options(self) -> Tree | None:
        """The options with the kind that admission sees, UpdateOptions for a patch; None for
        CONNECT."""
        kind = _OPTIONS_KINDS.get(self.operation)
        if kind is None:
            return None
        fields = {name: value for name, value in self.options.items() if name != "force"}
        return {**fields, "kind": kind, "apiVersion": "meta.k8s.io/v1"}

    @property
    def requested_name(self) -> str:
        """The name in the request; empty for the objects of a collection that is deleted."""
        return self.name if self.operation == "CREATE" else self.target.key.name

    @property
    def name_in_errors(self) -> str:
        """The name, or its start if the server has yet to generate it; "Unknown" without both."""
        return self.name or self.generate_name or "Unknown"

    def forbidden(self, reason: str) -> Forbidden:
        """Return the error with which a plugin refuses the write."""
        resource = self.target.resource
        return Forbidden(
            reason, resource=resource.name, group=resource.group, name=self.name_in_errors
        )
