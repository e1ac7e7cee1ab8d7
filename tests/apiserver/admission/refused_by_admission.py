"""Webhooks and policies that refuse each ConfigMap of their namespaces, in every way.

See `refused_requests.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from tests.apiserver.admission.hookkit import Hook, add, deny, patch, rule
from tests.apiserver.admission.policykit import Cluster
from tests.apiserver.conftest import Api
from tests.apiserver.endpoints.refused_requests import CBOR, CONFIG_MAP, JSON, YAML, Refused, encode
from tests.apiserver.proxy.https_server import Reply

_MUTATING: dict[str, Callable[[Any], Any]] = {
    "deny": deny("no"),
    "no-patch": lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": "e30="},
    "no-path": patch({"op": "remove", "path": "/none/none"}),
    "wrong-value": patch(add("/data", 1)),
    "wrong-kind": patch(add("/kind", "Secret")),
    "invalid": patch(add("/data/-%", "a")),
    "garbage": lambda _: Reply(b"{"),
}
_VALIDATING: dict[str, Callable[[Any], Any]] = {
    "denied": deny("no"),
    "uid": lambda _: {"allowed": True, "uid": "another"},
    "error": lambda _: Reply(b"no", 500),
}
_POLICIES = {
    "false": "false",
    "error": "object.none == 'a'",
    "any": "object.none == 'a' || object.nothing == 'b'",
    "variable": "variables.v == 'a' || variables.v == 'b'",
}
_MUTATIONS = {
    "error": "Object{data: object.none}",
    "path": '[JSONPatch{op: "remove", path: "/none/none"}]',
    "kind": '[JSONPatch{op: "add", path: "/data", value: 1}]',
}


class _Nothing(list[Any]):
    """A list that stays empty."""

    def append(self, _item: object) -> None:
        """Keep nothing."""


class Admission:
    """The webhooks and policies of a server, each with a namespace of its own."""

    def __init__(self, api: Api, folder: Path) -> None:
        self._api = api
        self._credentials = ensure_certificates(Config(), folder)
        self._hooks: list[Hook] = []
        self._paths: list[str] = []
        for name, behave in _MUTATING.items():
            self._add_hook(name, behave, mutating=True)
        for name, behave in _VALIDATING.items():
            self._add_hook(name, behave)
        self._add_hook("twice", deny("no"), count=2)
        condition = {"name": "m", "expression": "object.none == 'a'"}
        self._add_hook("condition", deny("no"), matchConditions=[condition])
        for policy in ("Fail", "Ignore"):
            self._add_hook(f"ends-{policy.lower()}", deny("no"), failurePolicy=policy)
            self._hooks[-1].server.end()
        for name, expression in _POLICIES.items():
            cluster = self._cluster()
            variables = [{"name": "v", "expression": "object.none"}]
            cluster.validate(expression, variables=variables if name == "variable" else [])
        for expression in _MUTATIONS.values():
            self._cluster().mutate(expression)

    def _cluster(self) -> Cluster:
        cluster = Cluster(self._api)
        self._paths.append(cluster.config_maps)
        return cluster

    def _add_hook(
        self, name: str, behave: Callable[[Any], Any], *, count: int = 1, mutating: bool = False,
        **fields: Any,
    ) -> None:  # fmt: skip
        hook = Hook(self._credentials, behave)
        hook.reviews = hook.server.received = _Nothing()
        self._hooks.append(hook)
        cluster = self._cluster()
        fields["namespaceSelector"] = cluster.selector
        webhooks = [
            hook.webhook(rule("configmaps"), name=f"{name}-{number}.example.com", **fields)
            for number in range(count)
        ]
        hook.create(self._api, webhooks, mutating=mutating)

    def requests(self) -> Iterator[Refused]:
        """Yield a refused request for each namespace and encoding."""
        for path in self._paths:
            for media in (JSON, YAML, CBOR):
                yield Refused(
                    name="ConfigMap that admission refuses",
                    method="POST",
                    path=f"{path}?dryRun=All",
                    body=lambda text, media=media: encode(CONFIG_MAP.object("new", text), media),
                    type=media,
                )

    def end(self) -> None:
        """End the webhooks."""
        for hook in self._hooks:
            hook.end()
