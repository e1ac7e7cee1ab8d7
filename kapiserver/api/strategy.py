"""What a kind decides about its own writes: hooks that do nothing until overridden.

A strategy is pure: trees in, trees changed in place or lists of FieldErrors out; no clock, no
random, no store. What needs those (uid, times, allocation) is done around it. Trees are in the
group's hub version. Mirrors rest.RESTCreateStrategy and its siblings in k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.api.errors import FieldError
from kapiserver.api.types import Tree


class Strategy:
    """The answers of an ordinary kind without a status and without generations."""

    allow_create_on_update = False
    """PUT of a name that is not there creates it."""
    allow_unconditional_update = True
    """PUT without a resourceVersion overwrites."""
    generate_name_max = 63
    """Names made from `metadata.generateName` are cut to this length."""

    def prepare_for_create(self, obj: Tree) -> None:
        """Drop what a client must not set and fill what the kind decides."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        """The same for an update: keep what an update of the object must not change."""

    def validate(self, obj: Tree) -> list[FieldError]:
        """The rules for a new object."""
        return []

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        """The rules for a changed one."""
        return []

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        """What the client should be told in Warning headers; `old` is None on create."""
        return []

    def canonicalize(self, obj: Tree) -> None:
        """Bring a valid object into its normal form, last before it is stored."""

    def grace_period(self, obj: Tree, asked: int | None) -> int:
        """Seconds between asking for deletion and the object's end; 0: at once."""
        return 0
