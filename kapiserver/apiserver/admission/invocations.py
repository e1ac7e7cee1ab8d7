"""Which webhooks and mutating policies ran for one write, and which of them must run again.

Mirrors webhookReinvokeContext and policyReinvokeContext of k8s.io/apiserver/pkg/admission/plugin.
"""

from __future__ import annotations

from collections.abc import Hashable

from msgspec import Struct, field

from kapiserver.api.accessors import copy_tree
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes, Reinvocation


class Invocations(Struct):
    """The invocations of one plugin for one write.

    invoked     keys of the invocations that must run again if the object changes later
    due         keys of the invocations that must run in the second run
    output      the object after the last invocation of the first run
    """

    reinvocation: Reinvocation
    invoked: set[Hashable] = field(default_factory=set)
    due: set[Hashable] = field(default_factory=set)
    output: Tree | None = None

    def begin(self, new: Tree | None) -> None:
        """Begin a run. In the second run, find out whether other plugins changed the object."""
        if self.reinvocation.is_running and self.output != new:
            self._make_due()

    @property
    def is_over(self) -> bool:
        """Whether no invocation is due in the second run."""
        return self.reinvocation.is_running and not self.due

    def is_skipped(self, key: Hashable) -> bool:
        """Report whether the second run skips an invocation, because it is not due."""
        return self.reinvocation.is_running and key not in self.due

    def object_changed(self) -> None:
        """Make all earlier invocations due, and require a second run."""
        self._make_due()
        self.reinvocation.is_required = True

    def end(self, new: Tree | None) -> None:
        """End a run; `new` is the object after it."""
        if self.invoked or self.due:
            self.output = copy_tree(new)

    def _make_due(self) -> None:
        self.due |= self.invoked
        self.invoked.clear()


def invocations_of(attributes: Attributes, plugin: str) -> Invocations:
    """Return the invocations of a plugin for a write; the same in both runs."""
    reinvocation = attributes.reinvocation
    invocations: Invocations = reinvocation.states.setdefault(plugin, Invocations(reinvocation))
    return invocations
