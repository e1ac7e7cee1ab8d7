"""Manifests of every built-in kind and their mutations, and what a server says to each over HTTP.

The manifest of a number is always the same: the first ones are valid objects of each kind, the
others have one to three changes.
"""

from __future__ import annotations

import copy
import functools
import http.client
import json
import random
import re
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import yaml
from msgspec import Struct

from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.runtime_config import parse_runtime_config, resource_filter
from tests.e2e.every_kind import objects
from tests.fuzz.certificates import CERTIFICATE
from tests.fuzz.mutations import mutated
from tests.trees import filled

SERVED = Scheme(is_enabled=resource_filter(parse_runtime_config("")))
SETTINGS: dict[str, Any] = {"tls": False, "service_cluster_ip_range": "10.96.0.0/12"}
"""Settings of a test server that judges as the server of a check does."""

_QUERY = "fieldManager=kubectl&force=false&fieldValidation=Strict&dryRun=All"
_IN_NAMESPACE = re.compile(r"/namespaces/[^/]+/")
_WARNING = re.compile(r'^299 - "(.*)"$', re.S)
_TYPED = re.compile(r"^(failed to create typed \w+ object \(.*?\): )errors:\n(.*)$", re.S)


class Verdict(Struct, frozen=True):
    """What a server says: the messages of its refusal, one for each field, and its warnings."""

    errors: list[str]
    warnings: list[str]
    message: str = ""


@functools.cache
def _samples() -> list[tuple[dict[str, Any], Any]]:
    """A valid object of each kind, and one of the same kind with every field set."""
    scheme = Scheme()
    samples = []
    for obj in objects():
        if "trustBundle" in (obj.get("spec") or {}):
            obj["spec"]["trustBundle"] = CERTIFICATE
        version = GroupVersion.parse(obj["apiVersion"])
        kind = GroupVersionKind(version.group, version.version, obj["kind"])
        samples.append((obj, filled(scheme.type_of(kind))))
    return samples


def manifest(number: int) -> dict[str, Any]:
    """The manifest of a number."""
    samples = _samples()
    obj, complete = copy.deepcopy(samples[number % len(samples)])
    obj.pop("status", None)
    if number < len(samples):
        return obj
    rng = random.Random(number)
    other = rng.choice((complete, complete, rng.choice(samples)[0]))
    changed = mutated(rng, obj, other)
    return changed if isinstance(changed, dict) else obj


def manifest_text(number: int) -> str:
    """The manifest of a number as a YAML document."""
    return yaml.safe_dump(manifest(number), allow_unicode=True, sort_keys=False)


def path_of(tree: Any) -> str | None:
    """The path to which kubectl sends an object; None if it refuses the object by itself."""
    metadata = tree.get("metadata") if isinstance(tree, dict) else None
    if not isinstance(metadata, dict):
        return None
    name, namespace = metadata.get("name"), metadata.get("namespace") or "default"
    texts = (name, namespace, tree.get("apiVersion"), tree.get("kind"))
    if not all(isinstance(text, str) and text for text in texts):
        return None
    if any(text in (".", "..") or set("/%") & set(text) for text in (name, namespace)):
        return None
    try:
        version = GroupVersion.parse(tree["apiVersion"])
        resource = SERVED.resource_of(version.with_kind(tree["kind"]))
    except (NotRegistered, ValueError):
        return None
    prefix = f"/apis/{version}" if version.group else f"/api/{version}"
    place = f"/namespaces/{quote(namespace, safe='')}" if resource.namespaced else ""
    return f"{prefix}{place}/{resource.name}/{quote(name, safe='')}"


class Judge:
    """Applies objects over HTTP, as `kubectl apply --server-side --dry-run=server` does."""

    def __init__(self, url: str, token: str = "") -> None:
        address = urlsplit(url)
        self._headers = {
            "Content-Type": "application/apply-patch+yaml", "Accept": "application/json",
        } | ({"Authorization": f"Bearer {token}"} if token else {})  # fmt: skip
        self._connection = (
            http.client.HTTPConnection(address.netloc, timeout=60)
            if address.scheme == "http"
            else http.client.HTTPSConnection(
                address.netloc, timeout=60, context=ssl._create_unverified_context()
            )
        )

    def verdict(self, path: str, tree: Any) -> Verdict:
        """What the server says to an object, whose namespace kubectl sets."""
        if _IN_NAMESPACE.search(path) and not tree["metadata"].get("namespace"):
            tree = tree | {"metadata": tree["metadata"] | {"namespace": "default"}}
        self._connection.request(
            "PATCH",
            f"{path}?{_QUERY}",
            json.dumps(tree),
            self._headers,
        )
        response = self._connection.getresponse()
        body = json.loads(response.read())
        headers = response.headers.get_all("Warning") or []
        warnings = [_unquoted(header.encode("latin-1").decode()) for header in headers]
        if response.status < 400:
            return Verdict([], warnings)
        return Verdict(list(_messages(body)), warnings, body["message"])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _unquoted(header: str) -> str:
    match = _WARNING.match(header)
    assert match is not None, header
    return re.sub(r"\\(.)", r"\1", match[1])


def _messages(status: Any) -> Iterator[str]:
    """The messages of a Status: those of its fields, or its own."""
    causes = (status.get("details") or {}).get("causes") or []
    fields = [cause for cause in causes if cause.get("field") and _is_of_field(cause)]
    for cause in fields:
        yield f"{cause['field']}: {cause['message']}"
    if not fields:
        match = _TYPED.match(status["message"])
        for line in re.split(r"\n(?= *\.)", match[2]) if match else ():
            yield f"{match[1]}{line.strip()}"
        if match is None:
            yield status["message"]


def _is_of_field(cause: Any) -> bool:
    return cause.get("reason", "").startswith(("FieldValue", "FieldManagerConflict"))
