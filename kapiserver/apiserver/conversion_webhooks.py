"""Custom objects from version to version by the webhook that their definition names.

One HTTPS request for all objects of a page. What the webhook answers is held to what it may
change: everything but labels and annotations of the metadata stays. Mirrors
webhook_converter.go of k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import uuid
from collections.abc import Sequence
from typing import Any

import aiohttp

from kapiserver.api.custom import Definition
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.objects import copied, kind_of, value_at
from kapiserver.api.types import Tree
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.json import SORTED, read_document, write_document
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import ConversionRefused, NotFound
from kapiserver.storage.stores import Stores

TIMEOUT = 30.0
"""Seconds for one answer."""
MOST_BYTES = 64 << 20
"""Of one answer."""
_SPOKEN = ("v1", "v1beta1")


class ConversionWebhooks:
    """Asks the webhooks of all definitions of one server."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def convert(
        self, definition: Definition, objects: Sequence[Tree], version: GroupVersion
    ) -> list[Tree]:
        """The objects, which are all of other versions, in that version.

        Raises ConversionRefused.
        """
        webhook = (definition.spec.get("conversion") or {}).get("webhook") or {}
        spoken = [one for one in webhook.get("conversionReviewVersions") or () if one in _SPOKEN]
        if not spoken:
            raise ConversionRefused("no supported conversion review versions")
        uid = str(uuid.uuid4())
        version_spoken = f"apiextensions.k8s.io/{spoken[0]}"
        review = {
            "kind": "ConversionReview",
            "apiVersion": version_spoken,
            "request": {"uid": uid, "desiredAPIVersion": str(version), "objects": list(objects)},
            "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
        }
        kind = kind_of(objects[0])
        try:
            answer = await self._ask(webhook.get("clientConfig") or {}, review)
            found = _converted(answer, version_spoken, uid)
        except (_Failed, CodecError) as error:
            raise ConversionRefused(f"conversion webhook for {kind} failed: {error}") from None
        if len(found) != len(objects):
            raise ConversionRefused(
                f"conversion webhook for {kind} returned {len(found)} objects, "
                f"expected {len(objects)}"
            )
        pairs = enumerate(zip(objects, found, strict=True))
        return [_checked(one, other, version, kind, index) for index, (one, other) in pairs]

    async def _ask(self, config: Tree, review: Tree) -> Any:
        url, name = await self._address(config)
        context = _context(config.get("caBundle") or "")
        body = write_document(review, option=SORTED)
        wait = aiohttp.ClientTimeout(total=TIMEOUT)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            async with (
                aiohttp.ClientSession(timeout=wait) as session,
                session.post(
                    f"{url}?timeout={TIMEOUT:g}s",
                    data=body,
                    headers=headers,
                    ssl=context,
                    server_hostname=name,
                    allow_redirects=False,
                ) as answer,
            ):
                data = await answer.content.read(MOST_BYTES)
                if not 200 <= answer.status < 300:
                    raise _Failed(_refusal(answer.status, data))
        except TimeoutError:
            raise _Failed(f'Post "{url}?timeout={TIMEOUT:g}s": context deadline exceeded') from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _Failed(f'Post "{url}?timeout={TIMEOUT:g}s": {error}') from None
        return await asyncio.to_thread(read_document, data)

    async def _address(self, config: Tree) -> tuple[str, str | None]:
        """Where the webhook is, and the name in its certificate where that is another."""
        if config.get("url"):
            return config["url"], None
        service = config.get("service") or {}
        name, namespace = service.get("name") or "", service.get("namespace") or ""
        port, path = service.get("port") or 443, service.get("path") or "/"
        services = self._stores.named(GroupVersion("", "v1"), "services")
        try:
            found = (await services.get(ObjectKey(namespace, name))).tree()
        except NotFound as error:
            raise _Failed(str(error)) from None
        host = value_at(found, "spec", "externalName") or value_at(found, "spec", "clusterIP")
        if not host or host == "None":
            raise _Failed(f'service "{name}" has no address')
        host = f"[{host}]" if ":" in host else host
        return f"https://{host}:{port}{path}", f"{name}.{namespace}.svc"


class _Failed(Exception):
    """Why there is no answer, or a bad one."""


def _context(bundle: str) -> ssl.SSLContext:
    try:
        text = base64.b64decode(bundle).decode() if bundle else None
        return ssl.create_default_context(cadata=text)
    except (ValueError, ssl.SSLError) as error:
        raise _Failed(f"unable to load root certificates: {error}") from None


def _refusal(status: int, data: bytes) -> str:
    try:
        message = read_document(data).get("message")
    except (CodecError, AttributeError):
        message = None
    return message or f"the server responded with the status code {status}"


def _converted(answer: Any, version: str, uid: str) -> Sequence[Any]:
    """The objects in an answer. Raises _Failed."""
    if not isinstance(answer, dict):
        raise _Failed("the answer is no ConversionReview")
    strict = version.endswith("/v1")
    if strict and (answer.get("apiVersion"), answer.get("kind")) != (version, "ConversionReview"):
        group, _, name = (answer.get("apiVersion") or "").rpartition("/")
        got = f"{group}/{name}, Kind={answer.get('kind') or ''}"
        raise _Failed(f"expected webhook response of {version}, Kind=ConversionReview, got {got}")
    response = answer.get("response")
    if not isinstance(response, dict):
        raise _Failed("no response provided")
    if strict and response.get("uid") != uid:
        raise _Failed(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if result.get("status") != "Success":
        status = result.get("status") or ""
        raise _Failed(
            result.get("message") or f"response.result.status was '{status}', not 'Success'"
        )
    found = response.get("convertedObjects") or []
    return found if isinstance(found, list) else []


def _checked(
    before: Tree, after: Any, version: GroupVersion, kind: GroupVersionKind, index: int
) -> Tree:
    """The converted object with the metadata that no webhook changes. Raises
    ConversionRefused."""
    where = f"conversion webhook for {kind} returned invalid converted object at index {index}"
    if not isinstance(after, dict):
        raise ConversionRefused(f"{where}: Object 'Kind' is missing in '{after}'")
    if after.get("apiVersion") != str(version):
        raise ConversionRefused(
            f"{where}: invalid groupVersion (expected {version}, "
            f"received {after.get('apiVersion') or ''})"
        )
    if after.get("kind") != before["kind"]:
        raise ConversionRefused(
            f"{where}: invalid kind (expected {before['kind']}, received {after.get('kind') or ''})"
        )
    metadata, changed = before.get("metadata") or {}, after.get("metadata")
    if not isinstance(changed, dict):
        raise ConversionRefused(
            f"conversion webhook for {kind} returned invalid metadata in object at index {index}: "
            "metadata is no object"
        )
    for name, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        one, other = metadata.get(name) or "", changed.get(name) or ""
        if one != other:
            raise ConversionRefused(f"{where}: must have the same {word}: {one} != {other}")
    kept = {name: copied(one) for name, one in metadata.items() if name not in _CHANGEABLE}
    for name in _CHANGEABLE:
        value = changed.get(name)
        if value is None:
            continue
        if not isinstance(value, dict) or any(not isinstance(one, str) for one in value.values()):
            raise ConversionRefused(
                f"conversion webhook for {kind} returned invalid metadata in object at index "
                f"{index}: metadata.{name}: must be a map of strings"
            )
        if value:
            kept[name] = value
    return {**after, "metadata": kept}


_CHANGEABLE = ("labels", "annotations")
