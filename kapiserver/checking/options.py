"""The options of a check."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from kapiserver.checking.reading.documents import Read
from kapiserver.checking.silencing import FileRule
from kapiserver.testing.history.recorder import Recording


def _no_progress(checked: int, objects: int) -> None:
    """Show nothing."""


class CheckOptions(Struct, frozen=True, kw_only=True):
    """What a check takes for granted.

    release     the Kubernetes release, such as 1.34; "" for the newest
    context     definitions, policies and roles that an administrator applies first
    cluster     objects that the cluster has
    recording   a recording of a test server, whose last state the cluster has
    against     the objects that were applied before, and that the checked ones change
    user        the name of the user who applies the objects; "" for an administrator
    file_rules  rules that are silent
    progress    called with the number of objects that were checked, and that of all
    """

    release: str = ""
    context: Sequence[Read] = ()
    cluster: Sequence[Read] = ()
    recording: Recording | None = None
    against: Sequence[Read] = ()
    user: str = ""
    file_rules: Sequence[FileRule] = ()
    progress: Callable[[int, int], None] = _no_progress
