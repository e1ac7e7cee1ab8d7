"""Health checks, and the responses of /healthz, /livez and /readyz.

The names of the checks are kube-apiserver's. The reason of a failed check is logged and never sent
to the client. Mirrors apiserver/pkg/server/healthz of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.customresources.custom_resources import CustomResources
from kapiserver.apiserver.response import Response, page_not_found, text_response
from kapiserver.metrics import Counter, Gauge
from kapiserver.storage.kv.contract import KV

if TYPE_CHECKING:
    from kapiserver.storage.encryption.file import EncryptionFile

_log = logging.getLogger(__name__)

CHECK_SECONDS = 2.0
HOOK_PREFIX = "poststarthook/"
CRD_HOOK = "crd-informer-synced"
RBAC_HOOK = "rbac/bootstrap-roles"
REPAIR_HOOK = "start-service-ip-repair-controllers"
ENCRYPTION_HOOK = "start-encryption-provider-config-automatic-reload"
IDENTITY_HOOK = "start-kube-apiserver-identity-lease-controller"
"""The step of a server that shares its store; it is added when the Lease is kept."""
PEER_HOOK = "peer-endpoint-reconciler-controller"
"""The step of such a server that tells its peers where it is."""
PEER_PROXY_HOOKS = (
    "mixed-version-proxy-handler",
    "local-discovery-cache-sync",
    "peer-discovery-workers",
)
"""The steps of such a server that passes requests on to its peers."""
PROXY_CERTIFICATE_HOOK = "aggregator-reload-proxy-client-cert"
"""The step of a server that shows a certificate to extension API servers."""
AUTOREGISTRATION = "autoregister-completion"
"""The only step that is not a hook of kube-apiserver: its check has no prefix."""
SERVICE_HOOKS = (
    "scheduling/bootstrap-system-priority-classes",
    "bootstrap-controller",
    "start-kubernetes-service-cidr-controller",
)
HOOKS = (
    ENCRYPTION_HOOK,
    "start-apiserver-admission-initializer",
    "generic-apiserver-start-informers",
    "priority-and-fairness-config-consumer",
    "priority-and-fairness-filter",
    "start-apiextensions-informers",
    "start-apiextensions-controllers",
    CRD_HOOK,
    "start-system-namespaces-controller",
    PEER_HOOK,
    *PEER_PROXY_HOOKS,
    "start-cluster-authentication-info-controller",
    IDENTITY_HOOK,
    "start-kube-apiserver-identity-lease-garbage-collector",
    REPAIR_HOOK,
    RBAC_HOOK,
    SERVICE_HOOKS[0],
    "priority-and-fairness-config-producer",
    *SERVICE_HOOKS[1:],
    PROXY_CERTIFICATE_HOOK,
    "start-kube-aggregator-informers",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "apiservice-registration-controller",
    "apiservice-discovery-controller",
    "kube-apiserver-autoregistration",
    AUTOREGISTRATION,
    "apiservice-openapi-controller",
    "apiservice-openapiv3-controller",
)
"""Steps of the start, by the names of kube-apiserver's hooks and in its order. Most say that a part
of the server runs, not that it has done its first work. Left out are the hooks of parts that this
server has not: tracking of legacy tokens, watermarks and counts of objects for flow control, and
watch caches that are filled before the first request."""
_ADDED_HOOKS = (PEER_HOOK, *PEER_PROXY_HOOKS, IDENTITY_HOOK)
"""Steps that are added when the server knows its address."""
LOOP_HOOKS = tuple(
    hook
    for hook in HOOKS
    if hook not in (CRD_HOOK, RBAC_HOOK, REPAIR_HOOK, *SERVICE_HOOKS, *_ADDED_HOOKS)
)
"""The steps that end together, when controllers and informers run; SERVICE_HOOKS end the start."""

HealthCheck: TypeAlias = Callable[[], Awaitable[None]]
"""Returns if the server is healthy, else raises an exception."""


class Unhealthy(Exception):
    """A check failed; the message is for the log."""


async def _ping() -> None:
    pass


async def check_log() -> None:
    """Return if the log can be written. Raises OSError."""
    for handler in logging.getLogger().handlers:
        with contextlib.suppress(ValueError):  # the stream is closed, for example by pytest
            handler.flush()


class Health:
    """The health checks of one server, and whether it has started or is draining.

    alive       checks of all three paths, by name, besides `ping`
    working     checks of /healthz alone, by name: a restart does not help a failed one
    ready       checks of /readyz alone, by name
    hooks       steps of the start, each of them a check `poststarthook/NAME` of all three paths
    conditions  functions by hook: such a step is finished once its function has returned true
    """

    def __init__(
        self,
        *,
        alive: Mapping[str, HealthCheck] | None = None,
        working: Mapping[str, HealthCheck] | None = None,
        ready: Mapping[str, HealthCheck] | None = None,
        hooks: Sequence[str] = (),
        conditions: Mapping[str, Callable[[], bool]] | None = None,
    ) -> None:
        self.alive: Mapping[str, HealthCheck] = {"ping": _ping, **(alive or {})}
        self.working: Mapping[str, HealthCheck] = working or {}
        self.ready: Mapping[str, HealthCheck] = ready or {}
        self.draining = False
        """Whether shutdown has begun."""
        self.refusing = False
        """Whether new requests get 429, because the server is about to stop."""
        self.results: Gauge[tuple[str, str]] = Gauge()
        """1 for a check that last succeeded and 0 for one that failed, by its name and path."""
        self.result_counts: Counter[tuple[str, str, str]] = Counter()
        """The results of checks, by name, path, and `success` or `error`."""
        self._steps: list[str] = []
        self._unfinished: set[str] = set()
        self._conditions = dict(conditions or {})
        for name in hooks:
            self.add_hook(name)

    @property
    def started(self) -> bool:
        """Whether all hooks have finished."""
        return not self._unfinished

    def add_hook(self, name: str) -> None:
        """Add a step of the start, which is not finished yet."""
        self._unfinished.add(name)
        self._steps.append(name)

    def finish(self, *hooks: str) -> None:
        """Report these steps of the start as done, those that the server has."""
        self._unfinished.difference_update(hooks)

    def drain(self) -> None:
        """Report unready from now on."""
        self.draining = True

    def refuse(self) -> None:
        """Let new requests get 429 from now on, if the server has the filter for it."""
        self.refusing = True

    def checks(self, path: str) -> Mapping[str, HealthCheck]:
        """Return the checks of `healthz`, `livez` or `readyz`, by name."""
        hooks = {
            step if step == AUTOREGISTRATION else f"{HOOK_PREFIX}{step}": functools.partial(
                self._check_hook, step
            )
            for step in sorted(self._steps, key=_position)
        }
        if path == "livez":
            return {**self.alive, **hooks}
        if path == "healthz":
            return {**self.alive, **self.working, **hooks}
        return {**self.alive, **self.ready, **hooks, "shutdown": self._shutdown}

    async def _check_hook(self, name: str) -> None:
        if name in self._unfinished and name in self._conditions and self._conditions[name]():
            self._unfinished.remove(name)
        if name in self._unfinished:
            raise Unhealthy("not finished")

    async def _shutdown(self) -> None:
        if self.draining:
            raise Unhealthy("process is shutting down")

    async def respond(
        self, segments: Sequence[str], query: Mapping[str, Sequence[str]]
    ) -> Response:
        """Return the response of a path such as `/readyz` or `/readyz/ping`, given as segments."""
        path, *check_names = segments
        checks = self.checks(path)
        if check_names:
            check = checks.get("/".join(check_names))
            return await _single_check_response(check) if check is not None else page_not_found()
        excluded = dict.fromkeys(query.get("exclude", ()))
        lines = [
            f"[+]{name} excluded: ok\n" if name in excluded else await self._line(path, name, check)
            for name, check in checks.items()
        ]
        unknown = [name for name in excluded if name not in checks]
        if unknown:
            names = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
        if any(line.startswith("[-]") for line in lines):
            return _failure_response(f"{''.join(lines)}{path} check failed")
        if "verbose" in query:
            return _passed(f"{''.join(lines)}{path} check passed\n")
        return _passed("ok")

    async def _line(self, path: str, name: str, check: HealthCheck) -> str:
        """Run a check, count its result, and return its line."""
        fails = await _fails(name, check)
        self.results.set((name, path), 0 if fails else 1)
        self.result_counts.add((name, path, "error" if fails else "success"))
        return f"[-]{name} failed: reason withheld\n" if fails else f"[+]{name} ok\n"


def _passed(text: str) -> Response:
    response = text_response(text)
    response.headers.append(("X-Content-Type-Options", "nosniff"))
    return response


def _position(step: str) -> int:
    return HOOKS.index(step) if step in HOOKS else -1


def server_health(
    config: Config,
    kv: KV,
    custom_resources: CustomResources,
    encryption: EncryptionFile | None,
    *,
    rbac: bool,
) -> Health:
    """Return the checks of a server, none of whose hooks has finished. Some servers have no RBAC,
    do not read the encryption configuration again, or show no certificate."""
    present = {
        RBAC_HOOK: rbac,
        ENCRYPTION_HOOK: config.store.encryption_provider_config_automatic_reload,
        PROXY_CERTIFICATE_HOOK: config.aggregation.proxy_client_cert_file is not None,
        **dict.fromkeys(_ADDED_HOOKS, False),
    }

    async def check_store() -> None:
        await kv.current_revision()

    async def check_definitions() -> None:
        if not custom_resources.synced:
            raise Unhealthy("the definitions of custom resources are not loaded")

    kms = kms_checks(encryption)
    return Health(
        alive={"log": check_log, "etcd": check_store},
        working=kms,
        ready={"etcd-readiness": kv.writable, **kms, "informer-sync": check_definitions},
        hooks=[hook for hook in HOOKS if present.get(hook, True)],
        conditions={CRD_HOOK: lambda: custom_resources.synced},
    )


def kms_checks(encryption: EncryptionFile | None) -> Mapping[str, HealthCheck]:
    """Return the check of the plugins of KMS providers, by name; none without such providers."""
    if encryption is None or not encryption.has_health_check:
        return {}

    async def check_kms() -> None:
        problem = await encryption.problem()
        if problem:
            raise Unhealthy(problem)

    return {"kms-providers": check_kms}


async def _single_check_response(check: HealthCheck) -> Response:
    if await _fails("", check):
        return _failure_response("internal server error: reason withheld")
    return text_response("ok")


async def _fails(name: str, check: HealthCheck) -> bool:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await check()
    except Exception as error:
        _log.info("health check %s failed: %s", name, error)
        return True
    return False


def _failure_response(message: str) -> Response:
    response = text_response(message + "\n", status=500)
    response.headers.append(("X-Content-Type-Options", "nosniff"))
    return response
