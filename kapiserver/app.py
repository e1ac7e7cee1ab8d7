"""Everything one server is made of, put together in one function.

Knows no socket: `server.py` gives it one. Layers below know no configuration: it ends here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kapiserver.api.custom_kinds import Definition
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.apiserver.allocation import ServiceAllocation
from kapiserver.apiserver.authentication.service_accounts import ServiceAccountTokens
from kapiserver.apiserver.authentication.union import Authentication, read_tokens
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.customresources.custom_resources import CustomResources
from kapiserver.apiserver.filters import FILTERS
from kapiserver.apiserver.health import Health
from kapiserver.apiserver.routes import route
from kapiserver.apiserver.runtime_config import parse_runtime_config, served
from kapiserver.codecs.factory import CodecFactory
from kapiserver.codecs.media_types import CBOR, JSON, MEDIA_TYPES
from kapiserver.storage.backends import open_store
from kapiserver.storage.clock import Clock, SystemClock
from kapiserver.storage.etcd_config import EtcdConfig
from kapiserver.storage.kv import KV
from kapiserver.storage.store_registry import Converter, Stores

if TYPE_CHECKING:
    from kapiserver.apiserver.admission.configuration import AdmissionSettings
    from kapiserver.storage.encryption_config import EncryptionFile


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """A server's parts and the way of a request through them."""

    server: Server
    kv: KV
    handle: Handler
    encryption: EncryptionFile | None = None
    """What is sealed at rest; to be started and stopped."""


async def build_app(config: Config, *, clock: Clock | None = None) -> App:
    """Make everything a server needs.

    Raises BadTokenFile and OSError for a file that is no good, StorageError and ValueError for a
    store that does not open, ValueError for a runtime config that makes no sense or a file of
    admission plugins that does not.
    """
    clock = clock or SystemClock()
    tokens = read_tokens(config.token_auth_file) if config.token_auth_file else {}
    scheme = Scheme(serves=served(parse_runtime_config(config.runtime_config)))
    codecs = CodecFactory(scheme)
    if "CBORServingAndStorage" not in config.feature_gates:
        codecs = CodecFactory(scheme, [one for one in MEDIA_TYPES if one is not CBOR])
        codecs.custom_at_rest = JSON
    root = f"/{config.etcd_prefix.strip('/')}".rstrip("/")
    etcd = EtcdConfig(
        root=root,
        cafile=config.etcd_cafile,
        certfile=config.etcd_certfile,
        keyfile=config.etcd_keyfile,
        username=config.etcd_username,
        password_file=config.etcd_password_file,
    )
    encryption = _encryption(config, clock)
    kv = await open_store(config.storage, clock=clock, etcd=etcd)

    async def storage_answers() -> None:
        await kv.current_revision()

    health = Health()
    health.alive["storage"] = storage_answers
    health.ready["storage-writes"] = kv.writable
    stores = Stores(
        kv,
        scheme,
        codecs,
        clock,
        root=root,
        event_ttl=config.event_ttl,
        encryption=encryption.encryption if encryption is not None else None,
    )
    stores.converter = _converter(stores)
    server = Server(
        config=config,
        scheme=scheme,
        codecs=codecs,
        stores=stores,
        clock=clock,
        custom_resources=CustomResources(scheme, stores, clock),
        health=health,
        admission=_admission(config),
        authentication=Authentication(
            tokens=tokens,
            anonymous=config.anonymous_auth,
            accounts=_accounts(config, stores, clock),
        ),
    )
    services = server.stores.named(CORE, "services")
    services.reserve = ServiceAllocation(server).reserve
    return App(server=server, kv=kv, handle=compose(server), encryption=encryption)


def _accounts(config: Config, stores: Stores, clock: Clock) -> ServiceAccountTokens:
    """Keys that were given are read now, so that a wrong one is no surprise later."""
    accounts = ServiceAccountTokens(config, stores, clock)
    if config.service_account_signing_key_file or config.service_account_key_file:
        _ = accounts.keys
    return accounts


def _converter(stores: Stores) -> Converter:
    async def convert(
        definition: Definition, objects: Sequence[Tree], version: GroupVersion
    ) -> Sequence[Tree]:
        from kapiserver.apiserver.customresources.conversion_webhooks import (
            ConversionWebhooks,  # an HTTP client
        )

        return await ConversionWebhooks(stores).convert(definition, objects, version)

    return convert


def _admission(config: Config) -> AdmissionSettings | None:
    if config.admission_control_config_file is None:
        return None
    from kapiserver.apiserver.admission.configuration import (  # loads YAML
        read_admission_settings,
    )

    return read_admission_settings(config.admission_control_config_file)


def _encryption(config: Config, clock: Clock) -> EncryptionFile | None:
    if config.encryption_provider_config is None:
        return None
    from kapiserver.storage.encryption_config import EncryptionFile  # loads YAML

    reload = config.encryption_provider_config_automatic_reload
    return EncryptionFile(config.encryption_provider_config, clock, reload=reload)


def compose(server: Server) -> Handler:
    """The filters around the routes, the first in the list outermost."""
    handle = route(server)
    for filter_ in reversed(FILTERS):
        handle = filter_(server, handle)
    return handle
