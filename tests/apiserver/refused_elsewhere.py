"""Other requests with a body that the server refuses: reviews, tokens, subresources, definitions,
policies. See `refused_requests.py`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.apiserver.admission.hookkit import GROUP
from tests.apiserver.customresources.customkit import CRDS, definition, version
from tests.apiserver.endpoints.refused_requests import (
    APPLY,
    CBOR,
    CONFIG_MAP,
    CORE,
    JSON,
    MERGE_PATCH,
    WIDGET,
    WIDGETS,
    YAML,
    Refused,
    Tree,
    encode,
)  # fmt: skip

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"


def _post(name: str, path: str, body: Callable[[str], Any], **more: Any) -> Iterator[Refused]:
    """Yield the creation of an object in each encoding that any value has."""
    for media in (JSON, YAML, CBOR):
        yield Refused(
            name=name,
            method="POST",
            path=path,
            body=lambda text, media=media: encode(body(text), media),
            type=media,
            **more,
        )


def _pod(text: str, **spec: Any) -> Tree:
    container = {"name": "c", "image": "i", "args": [text]}
    return {"metadata": {"name": "p"}, "spec": {"containers": [container], **spec}}


def requests() -> Iterator[Refused]:
    """Yield every request."""
    yield from _reviews()
    yield from _invalid_objects()
    yield from _definitions()
    yield from _policies()
    yield from _nothing()


def _reviews() -> Iterator[Refused]:
    yield from _post("review of nothing", f"{AUTHORIZATION}/subjectaccessreviews", lambda text: {
        "spec": {"user": text}
    })  # fmt: skip
    yield from _post("review of two", f"{AUTHORIZATION}/subjectaccessreviews", lambda text: {
        "spec": {"resourceAttributes": {}, "nonResourceAttributes": {"path": text}}
    })  # fmt: skip
    yield from _post(
        "rules of nothing",
        f"{AUTHORIZATION}/selfsubjectrulesreviews",
        lambda text: {"metadata": {"annotations": {"a": text}}, "spec": {}},
    )
    yield from _post("token", f"{AUTHENTICATION}/tokenreviews", lambda text: {
        "spec": {"token": text}
    })  # fmt: skip
    yield from _post("token of nothing", f"{AUTHENTICATION}/tokenreviews", lambda text: {
        "metadata": {"annotations": {"a": text}}
    })  # fmt: skip
    accounts = f"{CORE}/serviceaccounts"
    yield from _post("account token", f"{accounts}/default/token", lambda text: {
        "spec": {"audiences": [text], "expirationSeconds": 1}
    })  # fmt: skip
    yield from _post("token of no account", f"{accounts}/none/token", lambda text: {
        "spec": {"audiences": [text]}
    })  # fmt: skip
    yield from _post("binding of no pod", f"{CORE}/pods/none/binding", lambda text: {
        "metadata": {"annotations": {"a": text}}, "target": {"name": "n"}
    })  # fmt: skip
    yield from _post("eviction of no pod", f"{CORE}/pods/none/eviction", lambda text: {
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": "none", "annotations": {"a": text}},
    })  # fmt: skip


def _invalid_objects() -> Iterator[Refused]:
    yield from _post("pod without an account", f"{CORE}/pods", lambda text: _pod(
        text, serviceAccountName="none"
    ))  # fmt: skip
    yield from _post("pod of no class", f"{CORE}/pods", lambda text: _pod(
        text, priorityClassName="none"
    ))  # fmt: skip
    yield from _post("invalid pod", f"{CORE}/pods", lambda text: _pod(text, nodeName="-"))
    maps = "/api/v1/namespaces/full/configmaps"
    yield from _post("beyond the quota", maps, lambda text: CONFIG_MAP.object("new", text))
    missing = "/api/v1/namespaces/missing/configmaps"
    yield from _post("in no namespace", missing, lambda text: CONFIG_MAP.object("new", text))
    yield from _post("invalid service", f"{CORE}/services", lambda text: {
        "metadata": {"name": "s", "annotations": {"a": text}},
        "spec": {"clusterIP": "1.2.3.4", "ports": [{"port": 0}]},
    })  # fmt: skip
    yield from _post("service with a foreign address", f"{CORE}/services", lambda text: {
        "metadata": {"name": "s", "annotations": {"a": text}},
        "spec": {"clusterIP": "1.2.3.4", "ports": [{"port": 80}]},
    })  # fmt: skip
    yield from _post("secret of another type", f"{CORE}/secrets", lambda text: {
        "metadata": {"name": "s"}, "type": "kubernetes.io/tls", "stringData": {"a": text},
    })  # fmt: skip
    yield from _post("secret that is not base64", f"{CORE}/secrets", lambda text: {
        "metadata": {"name": "s"}, "data": {"a": text + "%"},
    })  # fmt: skip
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    yield from _post("role that is invalid", f"{rbac}/clusterroles", lambda text: {
        "metadata": {"name": "r"}, "rules": [{"resources": [text]}],
    })  # fmt: skip
    yield from _post("binding that is invalid", f"{rbac}/clusterrolebindings", lambda text: {
        "metadata": {"name": "r"}, "subjects": [{"kind": "User", "name": text}],
        "roleRef": {"kind": "None"},
    })  # fmt: skip
    yield from _post("request that is no certificate request",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests", lambda text: {
        "metadata": {"name": "r"},
        "spec": {"request": text, "signerName": "a.b/c", "usages": ["any"]},
    })  # fmt: skip


def _policies() -> Iterator[Refused]:
    for expression in ("object.", "object.a + 1", "'{text}' + 1", "a.b('{text}')"):
        yield from _post(
            f"policy of {expression}",
            f"{GROUP}/validatingadmissionpolicies",
            lambda text, expression=expression: {
                "metadata": {"name": "p"},
                "spec": {
                    "matchConstraints": {"resourceRules": []},
                    "validations": [{"expression": expression.replace("{text}", text[:9000])}],
                    "variables": [{"name": "v", "expression": f"'{text}'"}],
                },
            },
        )
    yield from _post("webhook that is invalid", f"{GROUP}/validatingwebhookconfigurations",
        lambda text: {
            "metadata": {"name": "w", "annotations": {"a": text}},
            "webhooks": [{"name": "w", "clientConfig": {"url": text, "caBundle": "YQ=="}}],
        })  # fmt: skip


def _nothing() -> Iterator[Refused]:
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": -1}}
    for method, media in (("PUT", JSON), ("PUT", CBOR), ("PATCH", MERGE_PATCH), ("PATCH", APPLY)):
        yield Refused(
            name="scale of nothing",
            method=method,
            path="/apis/apps/v1/namespaces/default/deployments/none/scale?fieldManager=m",
            body=lambda text, media=media: encode(
                scale | {"metadata": {"name": "none", "annotations": {"a": text}}}, media
            ),
            type=media,
        )
        yield Refused(
            name="status of nothing",
            method=method,
            path=f"{WIDGETS}/none/status?fieldManager=m",
            body=lambda text, media=media: encode(WIDGET.object("none", text), media),
            type=media,
        )
    for path in ("/openapi/v3", "/version", "/livez", "/nothing", "/metrics", "/apis"):
        for method in ("POST", "PUT", "GET", "DELETE"):
            yield Refused(
                name="body of no resource",
                method=method,
                path=path,
                body=lambda text: json.dumps(text).encode(),
                type=JSON,
            )


def _definitions() -> Iterator[Refused]:
    schemas: dict[str, Callable[[str], Any]] = {
        "no schema": lambda text: {"description": text},
        "schema of a wrong type": lambda text: {"type": text},
        "schema that is a text": lambda text: text,
        "rule that does not compile": lambda text: {
            "type": "object", "description": text, "x-kubernetes-validations": [{"rule": "self."}]
        },
        "rule of no type": lambda text: {
            "type": "object", "description": text, "x-kubernetes-validations": [{"rule": "1"}]
        },
        "default of another type": lambda text: {
            "type": "object", "properties": {"a": {"type": "integer", "default": text}}
        },
        "pattern": lambda text: {
            "type": "object", "properties": {"a": {"type": "string", "pattern": f"[{text}"}}
        },
    }  # fmt: skip
    for title, schema in schemas.items():
        crd = copy.deepcopy(definition(version("v1", {}), group="wrong.example.com"))

        def body(text: str, crd: Tree = crd, schema: Callable[[str], Any] = schema) -> Tree:
            wrong = copy.deepcopy(crd)
            wrong["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema(text)}
            return wrong

        yield from _post(f"definition: {title}", CRDS, body)
