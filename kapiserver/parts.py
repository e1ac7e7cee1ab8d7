"""The parts of a server that a program or a test may replace, and the lists that it may extend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.admission.plugin import Plugin
from kapiserver.apiserver.admission.plugins import PLUGINS
from kapiserver.apiserver.authentication.chain import Access
from kapiserver.apiserver.authorizer import Authorizer
from kapiserver.apiserver.context import CallGroup, ComputedGroup, Filter, MetricPages, PathHandler
from kapiserver.apiserver.faults import Faults
from kapiserver.apiserver.filters import FILTERS
from kapiserver.controllers.descriptor import ControllerDescriptor
from kapiserver.controllers.registry import REGISTRY
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.cache.shared_trees import SharedTrees
from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.encryption.transformers import EncryptionRules
from kapiserver.storage.kv.contract import KV
from kapiserver.storage.objects.object_reader import IdentifierSource

if TYPE_CHECKING:
    from kapiserver.apiserver.audit.log import AuditLog


class Parts(Struct, frozen=True, kw_only=True):
    """The parts of one server that are not the default ones.

    cluster_name        the name of a logical cluster; "" for other servers
    clock               the source of time and timers
    identifiers         generates uids and the suffixes of generated names
    filters             wrapped around the handlers, the first one outermost
    authorizer          replaces the one that the configuration describes
    admission_plugins   all plugins, of which the configuration enables some
    controllers         all controllers, of which the configuration enables some
    call_groups         groups that are served besides the declared ones; their resources are calls
    computed_groups     groups that are served besides the declared ones; their objects are computed
    metric_pages        answers scrapes below /metrics
    paths               handlers of paths that are not resources, by path
    page_features       what the page at /ui shows besides the API
    faults              called around every request
    kv                  an open store, closed with the server; replaces that of the configuration
    access              keys and users, in addition to those of the configuration
    audit               an open audit log; replaces that of the configuration
    encryption          encryption at rest; replaces that of the configuration
    shared_trees        trees of objects that other clusters have, too
    scheme              its kinds, without custom ones; the settings decide if it is None
    offloader           runs long work in threads
    """

    cluster_name: str = ""
    clock: Clock | None = None
    identifiers: IdentifierSource | None = None
    filters: Sequence[Filter] = FILTERS
    authorizer: Authorizer | None = None
    admission_plugins: Sequence[Plugin] = PLUGINS
    controllers: Sequence[ControllerDescriptor] = REGISTRY
    call_groups: Sequence[CallGroup] = ()
    computed_groups: Sequence[ComputedGroup] = ()
    metric_pages: MetricPages | None = None
    paths: Mapping[str, PathHandler] = field(default_factory=dict)
    page_features: Sequence[str] = ()
    faults: Faults | None = None
    kv: KV | None = None
    access: Access | None = None
    audit: AuditLog | None = None
    encryption: EncryptionRules | None = None
    shared_trees: SharedTrees | None = None
    scheme: Scheme | None = None
    offloader: Offloader | None = None


DEFAULT_PARTS = Parts()
