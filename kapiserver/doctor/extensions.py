"""Checks of what extends an API server: webhooks, APIServices, CustomResourceDefinitions."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

import orjson

from kapiserver.api.types import Tree
from kapiserver.doctor.certificates import expiry, load_certificates
from kapiserver.doctor.finding import ERROR, INFO, WARNING, Problem, Severity
from kapiserver.doctor.remote_server import RemoteServer, decode_bundle, quoted

SECONDS = 5.0
"""The limit of connecting to a webhook."""
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
_UNAVAILABLE = 503


class Webhook(NamedTuple):
    """A webhook: what it belongs to, its clientConfig, and how bad it is if it fails."""

    about: str
    config: Tree
    severity: Severity


def _webhooks(server: RemoteServer) -> Iterator[Webhook]:
    """Yield the webhooks of admission and of conversion."""
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for tree in server.items(f"{_ADMISSION}/{kind.lower()}s"):
            for webhook in tree.get("webhooks") or ():
                is_needed = webhook.get("failurePolicy", "Fail") == "Fail"
                yield Webhook(
                    f"webhook {webhook['name']} of {kind} {tree['metadata']['name']}",
                    webhook["clientConfig"],
                    ERROR if is_needed else WARNING,
                )
    for tree in server.items(_DEFINITIONS):
        conversion = tree["spec"].get("conversion") or {}
        config = (conversion.get("webhook") or {}).get("clientConfig")
        if config:
            about = f"conversion webhook of CustomResourceDefinition {tree['metadata']['name']}"
            yield Webhook(about, config, ERROR)


def silent_webhooks(server: RemoteServer) -> Iterator[Problem]:
    """Connect to each webhook: to a URL from this machine, to a Service through the API server."""
    for about, config, severity in _webhooks(server):
        service = config.get("service")
        problem = _service_problem(server, service) if service else _url_problem(config)
        if problem:
            yield Problem(
                severity=severity,
                about=about,
                message=problem
                + ("; requests that it matches fail" if severity == ERROR else "; it is skipped"),
                remedy="start the webhook, or delete its configuration",
            )


def _service_problem(server: RemoteServer, service: Tree) -> str:
    """Return why the Service of a webhook does not answer; "" if it does."""
    namespace, name, port = service["namespace"], service["name"], service.get("port", 443)
    path = f"/api/v1/namespaces/{quoted(namespace)}/services/"
    if not server.has(path + quoted(name)):
        return f"there is no Service {namespace}/{name}"
    target = quoted(f"https:{name}:{port}")
    answer = server.ask(f"{path}{target}/proxy/{(service.get('path') or '').lstrip('/')}")
    if answer.status != _UNAVAILABLE:
        return ""
    return f"Service {namespace}/{name} does not answer: {_message(answer.body)}"


def _message(body: bytes) -> str:
    try:
        return str(orjson.loads(body)["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return body[:200].decode(errors="replace").strip()


def _url_problem(config: Tree) -> str:
    """Return why the URL of a webhook does not answer here; "" if it does."""
    address = urlsplit(config.get("url") or "")
    host, bundle = address.hostname or "", decode_bundle(config)
    try:
        context = ssl.create_default_context(cadata=bundle.decode() if bundle else None)
        with (
            socket.create_connection((host, address.port or 443), timeout=SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return ""
    except (OSError, ValueError) as error:
        return f"{host}:{address.port or 443} does not answer this machine: {error}"


def expiring_bundles(server: RemoteServer) -> Iterator[Problem]:
    """Look at the dates of the CAs of webhooks and APIServices."""
    bundles = [(webhook.about, webhook.config) for webhook in _webhooks(server)]
    for tree in server.items(_API_SERVICES):
        bundles.append((f"APIService {tree['metadata']['name']}", tree["spec"]))
    for about, config in bundles:
        for certificate in load_certificates(decode_bundle(config)):
            yield from expiry(certificate, f"caBundle of {about}", server.now, "replace the CA")


def failed_webhooks(server: RemoteServer) -> Iterator[Problem]:
    """Look for calls of webhooks that have failed since the start of the server."""
    for labels, count in server.samples("apiserver_admission_webhook_rejection_count"):
        if labels.get("error_type") in ("calling_webhook_error", "apiserver_internal_error"):
            yield Problem(
                severity=WARNING,
                about=f"webhook {labels.get('name')}",
                message=f"{count:.0f} requests have failed since the start of the server, because "
                "the webhook could not be called",
                remedy="see the log of the webhook and its time-outs",
            )
    for labels, count in server.samples("apiserver_admission_webhook_fail_open_count"):
        yield Problem(
            severity=WARNING,
            about=f"webhook {labels.get('name')}",
            message=f"{count:.0f} requests have passed without it since the start of the server, "
            "because it could not be called",
            remedy="see the log of the webhook and its time-outs",
        )


def unavailable_services(server: RemoteServer) -> Iterator[Problem]:
    """Look at the condition Available of APIServices."""
    for tree in server.items(_API_SERVICES):
        for condition in (tree.get("status") or {}).get("conditions") or ():
            if condition.get("type") == "Available" and condition.get("status") != "True":
                yield Problem(
                    severity=ERROR,
                    about=f"APIService {tree['metadata']['name']}",
                    message=f"is down ({condition.get('reason')}): {condition.get('message')}; "
                    "discovery is incomplete, and namespaces cannot be deleted",
                    remedy="start the extension API server, or delete the APIService",
                )


def bad_definitions(server: RemoteServer) -> Iterator[Problem]:
    """Look at the conditions and the stored versions of definitions."""
    for tree in server.items(_DEFINITIONS):
        about = f"CustomResourceDefinition {tree['metadata']['name']}"
        status = tree.get("status") or {}
        for condition in status.get("conditions") or ():
            kind, value = condition.get("type"), condition.get("status")
            if (kind, value) in (("NamesAccepted", "False"), ("NonStructuralSchema", "True")):
                yield Problem(
                    severity=ERROR,
                    about=about,
                    message=f"{kind}={value}: {condition.get('message')}",
                    remedy="mend the definition",
                )
        stored = [version["name"] for version in tree["spec"]["versions"] if version["storage"]]
        old = [name for name in status.get("storedVersions") or () if name not in stored]
        if old:
            yield Problem(
                severity=INFO,
                about=about,
                message=f"objects may still be stored in {', '.join(old)}",
                remedy="migrate them by a StorageVersionMigration before the version is removed",
            )
