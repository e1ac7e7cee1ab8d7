"""The parts of one server, as handlers and filters use them.

`open_cluster` of `kapiserver/cluster.py` creates it once. Reads no flag and no environment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct, field

from kapiserver.api.group import Group, GroupVersionKind
from kapiserver.api.resource_client import Client
from kapiserver.api.scheme import Scheme
from kapiserver.api.selectors import Selection
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.authorizer import Authorizer
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.health import Health
from kapiserver.apiserver.memory_limit import MemoryLimit
from kapiserver.apiserver.metrics import AdmissionLabels, Metrics
from kapiserver.apiserver.openapi_cache import OpenAPICache
from kapiserver.apiserver.request import Query, Request
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target
from kapiserver.apiserver.user import User
from kapiserver.metrics import Observations
from kapiserver.storage.concurrency.clock import Clock

if TYPE_CHECKING:
    from kapiserver.api.apply.managed_fields import FieldManager
    from kapiserver.api.kind_info import KindInfo
    from kapiserver.apiserver.aggregation.api_services import APIService, APIServices
    from kapiserver.apiserver.aggregation.back_ends import BackEnds
    from kapiserver.apiserver.audit.log import AuditLog
    from kapiserver.apiserver.authentication.service_accounts.tokens import ServiceAccountTokens
    from kapiserver.apiserver.authentication.union import UnionAuthenticator
    from kapiserver.apiserver.authorization.rbac.authorizer import RbacAuthorizer
    from kapiserver.apiserver.customresources.custom_resources import CustomResources
    from kapiserver.apiserver.faults import Faults
    from kapiserver.apiserver.flowcontrol.flow_control import FlowControl
    from kapiserver.apiserver.http_client.upstreams import Upstreams
    from kapiserver.apiserver.peers.peer_proxy import PeerProxy
    from kapiserver.apiserver.streaming.local_kubelet import LocalKubelet
    from kapiserver.apiserver.tracing.tracer import Tracer
    from kapiserver.apiserver.ui.page import Page
    from kapiserver.codecs.codec_factory import CodecFactory
    from kapiserver.storage.cache.offload import Offloader
    from kapiserver.storage.objects.store_registry import StoreRegistry


class Server(Struct, frozen=True, kw_only=True):
    """One server's parts."""

    config: Config
    cluster_name: str = ""
    """The name of a logical cluster, whose users take turns as one; "" for other servers."""
    scheme: Scheme
    codecs: CodecFactory
    stores: StoreRegistry
    clock: Clock
    offloader: Offloader
    """Runs long work in threads; the clusters of a process share it."""
    custom_resources: CustomResources
    upstreams: Upstreams
    api_services: APIServices
    openapi: OpenAPICache = field(default_factory=OpenAPICache)
    back_ends: Callable[[], BackEnds]
    """Returns the connections to extension API servers."""
    peers: PeerProxy | None = None
    """The peers that get the requests for what this server does not serve; None: they get none."""
    local_kubelet: LocalKubelet | None = None
    """Answers for the pods of some nodes inside this server; None: all nodes have real kubelets."""
    new_client: Callable[[Server, User, str, bool], Client]
    """Makes internal clients; call `client` instead."""
    health: Health = field(default_factory=Health)
    metrics: Metrics = field(default_factory=Metrics)
    authenticator: UnionAuthenticator
    service_account_tokens: ServiceAccountTokens | None = None
    """Signs tokens for service accounts; None: the server has no token subresource."""
    authorizer: Authorizer
    rbac: RbacAuthorizer | None = None
    """RBAC's part of the authorizer, with the roles of all users; None if RBAC is off."""
    flow_control: FlowControl | None = None
    """Queues requests by priority level; None: their number is limited alone."""
    memory_limit: MemoryLimit | None = None
    failed_handshakes: Callable[[], int] = lambda: 0
    """Returns how many TLS handshakes with clients of this process have failed."""
    tracer: Tracer | None = None
    """Exports the spans of requests; None without a tracing configuration."""
    field_managers: dict[tuple[KindInfo, str], FieldManager] = field(default_factory=dict)
    """The field managers of built-in kinds, by kind and subresource (see `field_manager`)."""
    audit: AuditLog | None = None
    """The audit log; None without an audit policy."""
    faults: Faults | None = None
    """Faults that a test injects into requests."""
    calls: Mapping[tuple[str, str], CallHandler] = field(default_factory=dict)
    """The handlers of calls, by group and plural name."""
    subresources: Mapping[tuple[str, str, str], SubresourceHandler] = field(default_factory=dict)
    """The handlers of subresources that a program adds, by group, plural name and subresource."""
    metric_pages: MetricPages | None = None
    """Answers scrapes below /metrics; None if nothing is there."""
    page: Page | None = None
    """The page at /ui; None without --enable-ui."""
    paths: Mapping[str, PathHandler] = field(default_factory=dict)
    """The handlers of paths that a program adds, by path."""
    computed: Mapping[str, ReadComputed] = field(default_factory=dict)
    """What reads the groups whose objects are computed, by group."""
    host_reader: HostReader | None = None
    """Reads what the stores do not have from the host of an extension API server, for admission;
    None: the stores have everything."""
    plugin_chain: Callable[[str, str], Awaitable[PluginChain]]
    """Returns the admission plugins for a qualified resource (with its subresource) and an
    operation."""

    def client(
        self, user: User, *, user_agent: str = "kapiserver", authorize: bool = True
    ) -> Client:
        """Return a client that makes its calls within this server, as the user. Fields that it
        writes are managed under the name of the user agent, unless a call names another. With
        `authorize=False` the authorizer is not asked."""
        return self.new_client(self, user, user_agent, authorize)


Handler: TypeAlias = Callable[[Request], Awaitable[AnyResponse]]
"""Returns the response to a request, or raises an error that `errors.TABLE` has a row for."""

AggregatedHandler: TypeAlias = Callable[[Server, Request, "APIService"], Awaitable[AnyResponse]]
"""Passes a request on to the extension API server of an APIService."""

PathHandler: TypeAlias = Callable[[Server, Request], Awaitable[AnyResponse]]
"""Handles a non-resource request."""

Filter: TypeAlias = Callable[[Server, Handler], Handler]
"""Returns a handler that wraps the next one; called once per server."""

Hook: TypeAlias = Callable[[Server, Attributes, Tree | None, Tree | None], Awaitable[None]]
"""One step of an admission plugin: (server, attributes, new object, old object). Changes the new
object, or raises to reject the write."""

IsIdle: TypeAlias = Callable[[Server, Attributes], bool]
"""Reports, without waiting, that the hooks of an admission plugin need not run for a write."""

CallHandler: TypeAlias = Callable[[Server, GroupVersionKind, Caller, Tree], Awaitable[Tree]]
"""Answers the create of a call, an object that is never stored: returns it with its status, in the
version of the request. Raises an error that `errors.TABLE` has a row for."""


SubresourceHandler: TypeAlias = Callable[[Server, Request, Target], Awaitable[AnyResponse]]
"""Returns the response to a request for a subresource, or raises an error that `errors.TABLE` has a
row for."""


class CallGroup(Struct, frozen=True, kw_only=True):
    """A group whose resources are calls: created, answered and never stored, as reviews are."""

    group: Group
    handle: CallHandler


ReadComputed: TypeAlias = Callable[[Server, RequestInfo, Query], Awaitable[Tree]]
"""Answers a get or list with an object or a list, in the version of the request; the items of a
list have kinds. Raises an error that `errors.TABLE` has a row for."""


MetricPages: TypeAlias = Callable[[Server, str], Awaitable[AsyncIterator[bytes] | None]]
"""Returns the text of the page at a path below /metrics, in pieces; None if there is no page."""


class ComputedGroup(Struct, frozen=True, kw_only=True):
    """A group whose objects are computed when they are read and never stored, such as metrics.
    `read` decides which resources there are; discovery lists those of the group."""

    group: Group
    read: ReadComputed


RequestDefaults: TypeAlias = Callable[[Tree, Tree | None, User, str], None]
"""Sets the fields of an object that depend on the user and the time of the request: a function of
(new object, old object, user, now)."""

Check: TypeAlias = Callable[[Server, Attributes, Tree, Tree | None], Awaitable[None]]
"""Checks an object: (server, attributes, new object, old object). Raises to reject the write."""


class ParamObjects(Protocol):
    """The objects of the kind of a policy's parameters. They are shared: never change them."""

    namespaced: bool

    async def get(self, namespace: str, name: str) -> Tree | None:
        """Return one object, or None. Raises APIError, StorageError."""

    async def list(self, namespace: str, selection: Selection) -> Sequence[Tree]:
        """Return the selected objects of a namespace, "" for all. Raises APIError, StorageError."""


class HostReader(Protocol):
    """Reads objects of the host cluster of an extension API server."""

    async def namespace(self, name: str) -> Tree | None:
        """Return a namespace as the host has it now, or None. Raises InternalError."""

    async def params(self, kind: GroupVersionKind) -> ParamObjects | None:
        """Return the objects of a kind, or None if the host does not serve it. Raises
        InternalError."""


class ResourceRules(Struct, frozen=True, kw_only=True):
    """The rules of one resource, which run whatever admission plugins are enabled.

    set_defaults    runs after the mutating plugins
    check           runs after `set_defaults`, before the strategy prepares the object
    check_prepared  runs after the strategy has prepared and validated the object, before the
                    validating plugins
    """

    set_defaults: RequestDefaults | None = None
    check: Check | None = None
    check_prepared: Check | None = None


class AdmissionStep(Struct, frozen=True, kw_only=True):
    """One hook of an admission plugin, for one operation on one resource.

    is_idle     reports that the hook has nothing to do for a write, so that it need not be called;
                None if the hook must be called for each write
    labels      the labels of its runs that admit the write
    admitted    the durations of these
    """

    hook: Hook
    is_idle: IsIdle | None
    labels: AdmissionLabels
    admitted: Observations


class PluginChain(Struct, frozen=True, kw_only=True):
    """The hooks of the admission plugins for one operation on one resource, and the rules of the
    resource.

    admit       may change the object
    validate    run after all of `admit`
    admitted    the durations of all of `admit` together, when they admit the write
    validated   those of all of `validate`
    """

    admit: tuple[AdmissionStep, ...]
    validate: tuple[AdmissionStep, ...]
    admitted: Observations
    validated: Observations
    rules: ResourceRules = ResourceRules()
