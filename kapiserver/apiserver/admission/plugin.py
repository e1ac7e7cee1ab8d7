"""The record of an admission plugin: its name, its hooks, and the writes that it handles.

A plugin is loaded with the first write that it handles. One with a configuration, or that a flag
enables, is loaded when the server starts, so that errors are reported then. Mirrors
pkg/admission/plugins.go of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from kapiserver.api.lazy import Lazy
from kapiserver.apiserver.admission.configuration import PluginConfiguration
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Hook, IsIdle
from kapiserver.apiserver.file_watch import FileWatch
from kapiserver.apiserver.metrics import Metrics
from kapiserver.storage.concurrency.clock import Clock

if TYPE_CHECKING:
    from kapiserver.apiserver.webhooks.client_config import ResolveService

CREATE = ("CREATE",)
UPDATE = ("UPDATE",)
WRITE = ("CREATE", "UPDATE")
ANY = ("CREATE", "UPDATE", "DELETE")
ANY_OR_CONNECT = (*ANY, "CONNECT")


class Hooks(Struct, frozen=True, kw_only=True):
    """The hooks of one plugin.

    admit       may change the object, before it is prepared
    validate    checks the object after the strategy has prepared and validated it
    is_idle     reports without waiting that `admit` and `validate` have nothing to do for a write;
                then they are not called
    close       frees what the plugin holds, when the server stops
    """

    admit: Hook | None = None
    validate: Hook | None = None
    is_idle: IsIdle | None = None
    close: Callable[[], Awaitable[None]] | None = None


class PluginContext(Struct, frozen=True, kw_only=True):
    """The parameter of a plugin's loader: the server's flags, its clock, metrics and file watch,
    and the plugin's configuration from the file of `--admission-control-config-file`.

    resolve_service     finds the Services of webhooks; None: their endpoints are in the stores
    """

    configuration: PluginConfiguration
    config: Config
    clock: Clock
    metrics: Metrics
    file_watch: FileWatch
    resolve_service: ResolveService | None = None


class Plugin(Struct, frozen=True, kw_only=True):
    """One plugin.

    admit, validate     its hooks, if it has no state
    load                returns its hooks, if it has state; raises BadAdmissionConfiguration
    resources           qualified names such as `ingresses.networking.k8s.io` or
                        `pods/ephemeralcontainers`; empty for all resources
    enabled_by_default  whether it runs unless --disable-admission-plugins names it
    """

    name: str
    admit: Lazy[Hook] | None = None
    validate: Lazy[Hook] | None = None
    load: Callable[[PluginContext], Hooks] | None = None
    resources: tuple[str, ...] = ()
    operations: tuple[str, ...] = ANY
    enabled_by_default: bool = True

    def hooks(self, context: PluginContext) -> Hooks:
        """Import the plugin and return its hooks. Raises BadAdmissionConfiguration."""
        if self.load is not None:
            return self.load(context)
        return Hooks(
            admit=None if self.admit is None else self.admit(),
            validate=None if self.validate is None else self.validate(),
        )
