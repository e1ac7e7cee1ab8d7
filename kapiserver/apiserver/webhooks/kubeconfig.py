"""The webhook that a kubeconfig file names: token review, authorization, image policy and audit.

The cluster of the current context has the webhook's URL and CA, its user the credentials: a client
certificate, a token or a password. For example:

    webhook = read_kubeconfig(file, clock, purpose="authentication webhook")  # BadConfiguration
    response = await webhook.review(review)  # WebhookFailed
    await webhook.close()

Mirrors pkg/util/webhook/webhook.go of k8s.io/apiserver and tools/clientcmd of client-go.
"""

from __future__ import annotations

import functools
import random
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path as FilePath
from time import perf_counter
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import Kind, Tree, Type, field
from kapiserver.apiserver.configuration_files import BadConfiguration, read_configuration
from kapiserver.apiserver.webhooks.credential_plugin import plugin_errors, run_plugin
from kapiserver.apiserver.webhooks.credentials import (
    ClientCredentials,
    FileStates,
    file_states,
    read_pem,
)
from kapiserver.apiserver.webhooks.http_client import (
    JSON_HEADERS,
    MAX_BYTES,
    TIMEOUT,
    Address,
    Call,
    HttpClient,
    WebhookFailed,
    clean_url,
    client_context,
    decode_review,
    encode_review,
)
from kapiserver.apiserver.webhooks.metrics import ClientMetrics
from kapiserver.storage.concurrency.clock import Clock, wait

ATTEMPTS = 5
"""The maximum number of attempts of one call."""
_DELAY_FACTOR, _DELAY_JITTER = 1.5, 0.2
_random = random.SystemRandom()
"""Not the generator of the module, whose state belongs to the program that runs the server."""


class Cluster(Type):
    """How to reach a server."""

    server: str = field(1)
    tls_server_name: str = field(2, json="tls-server-name")
    insecure_skip_tls_verify: bool = field(3, json="insecure-skip-tls-verify")
    certificate_authority: str = field(4, json="certificate-authority")
    certificate_authority_data: bytes = field(5, json="certificate-authority-data")
    proxy_url: str = field(6, json="proxy-url")
    disable_compression: bool = field(7, json="disable-compression")


class ExecEnvVar(Type):
    """A variable of the environment of a credential plugin."""

    name: str = field(1)
    value: str = field(2)


class ExecConfig(Type):
    """A credential plugin: a program that prints credentials."""

    command: str = field(1)
    args: list[str] = field(2)
    env: list[ExecEnvVar] = field(3)
    apiVersion: str = field(4)
    installHint: str = field(5)
    provideClusterInfo: bool = field(6)
    interactiveMode: str = field(7)


class AuthInfo(Type):
    """The credentials of a user."""

    client_certificate: str = field(1, json="client-certificate")
    client_certificate_data: bytes = field(2, json="client-certificate-data")
    client_key: str = field(3, json="client-key")
    client_key_data: bytes = field(4, json="client-key-data")
    token: str = field(5)
    tokenFile: str = field(6)
    username: str = field(7)
    password: str = field(8)
    auth_provider: dict[str, Any] | None = field(9, json="auth-provider")
    exec: ExecConfig | None = field(10)


class Context(Type):
    """A cluster and a user."""

    cluster: str = field(1)
    user: str = field(2)


class NamedCluster(Type):
    """A cluster with its name."""

    name: str = field(1)
    cluster: Cluster = field(2)


class NamedAuthInfo(Type):
    """A user with its name."""

    name: str = field(1)
    user: AuthInfo = field(2)


class NamedContext(Type):
    """A context with its name."""

    name: str = field(1)
    context: Context = field(2)


class KubeconfigFile(Kind):
    """A kubeconfig; fields that no webhook needs are left out."""

    clusters: list[NamedCluster] = field(1)
    users: list[NamedAuthInfo] = field(2)
    contexts: list[NamedContext] = field(3)
    current_context: str = field(4, json="current-context")


_KIND = GroupVersionKind("", "v1", "Config")


ObserveAttempt: TypeAlias = Callable[[str, float], None]
"""Takes the result of an attempt ("success", "error", "timeout" or "canceled") and its seconds."""


def _is_transient(error: WebhookFailed) -> bool:
    return error.transient


class KubeconfigWebhook:
    """Posts reviews to one webhook. Certificates, keys and token files that change are read again
    at the next call."""

    def __init__(
        self,
        cluster: Tree,
        user: Tree,
        folder: FilePath,
        clock: Clock,
        *,
        timeout: float = TIMEOUT,
        metrics: ClientMetrics | None = None,
    ) -> None:
        """Load the certificates. Raises BadConfiguration."""
        self._cluster = cluster
        self._folder = folder
        self._credentials = ClientCredentials(user, folder)
        self._clock = clock
        self._timeout = timeout
        self._client = HttpClient(metrics)
        self._states = self._file_states()
        self._context = self._load_context()
        self._address = Address(
            url=f"{clean_url(cluster['server'])}?timeout={timeout:g}s",
            name=cluster.get("tls-server-name") or "",
            proxy=cluster.get("proxy-url") or "",
        )

    async def review(self, review: Tree, **options: Any) -> Any:
        """Post a review and return the decoded response; options as in `post`. Raises
        WebhookFailed."""
        return await decode_review(await self.post(review, **options))

    async def post(
        self,
        review: Tree | bytes,
        *,
        initial_backoff: float = 0.5,
        should_retry: Callable[[WebhookFailed], bool] = _is_transient,
        observe: ObserveAttempt = lambda _result, _seconds: None,
    ) -> bytes:
        """Post a review, or its JSON, and return the body of the response. After a failure that
        another attempt may mend it waits `initial_backoff` seconds, then half as long again each
        time; `observe` is called after each attempt. Raises WebhookFailed after ATTEMPTS
        attempts."""
        body = review if isinstance(review, bytes) else await encode_review(review)
        delay = initial_backoff
        for attempt in range(1, ATTEMPTS + 1):
            started, result = perf_counter(), "canceled"
            try:
                call = Call(
                    body=body,
                    headers={**JSON_HEADERS, **self._credentials.headers()},
                    timeout=self._timeout,
                    max_bytes=MAX_BYTES,
                )
                response = await self._client.send(self._address, self._current_context(), call)
                result = "success"
                return response
            except WebhookFailed as error:
                result = "timeout" if error.timed_out else "error"
                if attempt == ATTEMPTS or not should_retry(error):
                    raise
            finally:
                observe(result, perf_counter() - started)
            await wait(self._clock, delay * (1 + _random.random() * _DELAY_JITTER))
            delay *= _DELAY_FACTOR
        raise AssertionError("unreachable")

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._client.close()

    def _current_context(self) -> ssl.SSLContext:
        states = self._file_states()
        if states != self._states:
            try:
                self._context = self._load_context()
            except BadConfiguration as error:
                raise WebhookFailed(str(error)) from None
            self._states = states
        return self._context

    def _file_states(self) -> list[FileStates]:
        authority = file_states(self._cluster, ("certificate-authority",), self._folder)
        return [authority, self._credentials.file_states()]

    def _load_context(self) -> ssl.SSLContext:
        return cluster_context(self._cluster, self._credentials, self._folder)


def cluster_context(
    cluster: Tree, credentials: ClientCredentials, folder: FilePath
) -> ssl.SSLContext:
    """Return the TLS settings of a cluster, with the user's certificate. Raises
    BadConfiguration."""
    authorities = read_pem(cluster, "certificate-authority", folder)
    try:
        context = client_context(authorities.decode())
    except ValueError as error:
        raise BadConfiguration(str(error)) from None
    credentials.load_certificate(context)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def read_kubeconfig(
    file: FilePath,
    clock: Clock,
    *,
    purpose: str,
    timeout: float = TIMEOUT,
    metrics: ClientMetrics | None = None,
) -> KubeconfigWebhook:
    """Return the webhook of a kubeconfig file. Relative paths in it begin at its folder.
    `purpose` names the file in errors, `timeout` is that of one attempt in seconds. Raises
    BadConfiguration."""
    cluster, user = read_cluster(file, purpose=purpose)
    return KubeconfigWebhook(cluster, user, file.parent, clock, timeout=timeout, metrics=metrics)


def read_cluster(file: FilePath, *, purpose: str, plugins: bool = False) -> tuple[Tree, Tree]:
    """Return the cluster and the user of the current context of a kubeconfig file. `purpose` names
    the file's purpose in errors; `plugins` says whether the credential plugin of the user is run or
    refused. Raises BadConfiguration."""
    tree = read_configuration(
        file,
        {_KIND: KubeconfigFile},
        purpose=purpose,
        validate=functools.partial(_errors, plugins=plugins),
        strict=False,
        default=_KIND,
    )
    context = _context_of(tree)
    cluster = _named(tree, "clusters", "cluster", context.get("cluster"))
    user = _named(tree, "users", "user", context.get("user")) or {}
    assert cluster is not None  # _errors checks it
    if user.get("exec"):
        user |= run_plugin(user["exec"], cluster, file.parent)
    return cluster, user


def read_users(file: FilePath, *, purpose: str) -> tuple[Mapping[str, ClientCredentials], str]:
    """Return the credentials of the users of a kubeconfig file, by name, and the name of the
    current context's user, or "". Raises BadConfiguration."""
    tree = read_configuration(
        file, {_KIND: KubeconfigFile}, purpose=purpose, validate=_user_list_errors, strict=False,
        default=_KIND,
    )  # fmt: skip
    users = {
        entry.get("name") or "": ClientCredentials(entry.get("user") or {}, file.parent)
        for entry in tree.get("users") or ()
    }
    return users, _context_of(tree).get("user") or ""


def _context_of(tree: Tree) -> Tree:
    return _named(tree, "contexts", "context", tree.get("current-context")) or {}


def _named(tree: Tree, plural: str, singular: str, name: str | None) -> Tree | None:
    for entry in tree.get(plural) or ():
        if entry.get("name") == name and name:
            return entry.get(singular) or {}
    return None


def _errors(tree: Tree, *, plugins: bool) -> Iterator[FieldError]:
    current = tree.get("current-context") or ""
    context = _named(tree, "contexts", "context", current)
    if context is None:
        yield invalid(Path("current-context"), current, "no context has this name")
        return
    cluster_name, user_name = context.get("cluster") or "", context.get("user") or ""
    cluster = _named(tree, "clusters", "cluster", cluster_name)
    if cluster is None:
        yield invalid(Path("contexts"), cluster_name, "no cluster has this name")
    else:
        yield from _cluster_errors(cluster, Path("clusters"))
    user = _named(tree, "users", "user", user_name)
    if user is not None:
        yield from _user_errors(user, user_name, plugins=plugins)
    elif user_name:
        yield invalid(Path("contexts"), user_name, "no user has this name")


def _user_list_errors(tree: Tree) -> Iterator[FieldError]:
    for entry in tree.get("users") or ():
        yield from _user_errors(entry.get("user") or {}, entry.get("name") or "")


def _user_errors(user: Tree, user_name: str, *, plugins: bool = False) -> Iterator[FieldError]:
    plugin = user.get("exec")
    if plugin is not None and plugins:
        yield from plugin_errors(plugin, Path("users") / "exec")
    for name in ("auth-provider",) if plugins else ("exec", "auth-provider"):
        if user.get(name) is not None:
            yield invalid(Path("users") / name, user_name, "credential plugins are not supported")
    for first, second in (
        ("client-certificate", "client-key"),
        ("client-key", "client-certificate"),
    ):
        if _has(user, first) and not _has(user, second):
            yield required(Path("users") / second, f"{first} and {second} must be set together")


def _cluster_errors(cluster: Tree, path: Path) -> Iterator[FieldError]:
    server = cluster.get("server") or ""
    try:
        parts = urlsplit(server)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_valid = False
    if not is_valid or parts.query or parts.fragment:
        yield invalid(path / "server", server, "must be an HTTP or HTTPS URL without a query")
    if cluster.get("insecure-skip-tls-verify") and _has(cluster, "certificate-authority"):
        yield invalid(
            path / "certificate-authority",
            cluster.get("certificate-authority") or "",
            "specifying a root certificates file with the insecure flag is not allowed",
        )


def _has(tree: Tree, name: str) -> bool:
    return bool(tree.get(name) or tree.get(f"{name}-data"))
