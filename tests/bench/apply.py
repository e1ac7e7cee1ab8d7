"""The cost of server-side apply compared with an update, in this process and without HTTP.

    python -m tests.bench.apply

Each variant sends a pod of 14 KB that is stored already, unchanged or with a change. Figures are
CPU microseconds per request, the minimum of several batches.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import yaml

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.request import Request, parse_query
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.response import Response
from kapiserver.apiserver.user import MASTERS, User
from kapiserver.cluster import Cluster, open_cluster
from kapiserver.codecs import cbor
from kapiserver.controllers.defaults.bootstrap import create_system_namespaces

PATH = "/api/v1/namespaces/default/pods"
BATCHES, SIZE = 15, 20


def pod(containers: int = 3, variables: int = 19) -> dict[str, Any]:
    """A pod that has about 14 KB when it is stored, as a user applies it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "big", "labels": {f"label-{n}": "value" for n in range(8)}},
        "spec": {
            "automountServiceAccountToken": False,
            "volumes": [{"name": f"volume-{n}", "emptyDir": {}} for n in range(6)],
            "containers": [
                {
                    "name": f"container-{number}",
                    "image": "registry.example/team/image:1.27",
                    "args": ["--verbose", "--port=8080"],
                    "ports": [{"name": f"p{number}", "containerPort": 8080 + number}],
                    "env": [
                        {"name": f"VARIABLE_NUMBER_{n}", "value": f"a value of the variable {n}"}
                        for n in range(variables)
                    ],
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                    "volumeMounts": [
                        {"name": f"volume-{n}", "mountPath": f"/mnt/volume-{n}"} for n in range(6)
                    ],
                    "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
                }
                for number in range(containers)
            ],
        },
    }


@dataclass(frozen=True)
class Variant:
    """One kind of request: its method and path, and the body of each repetition."""

    method: str
    media: str
    body: Callable[[int], bytes]
    query: str = "fieldManager=bench&force=true"


async def send(
    cluster: Cluster, variant: Variant, index: int, path: str = f"{PATH}/big"
) -> Response:
    """Handle one request; return the response."""
    data = variant.body(index)

    async def read_body(limit: int) -> bytes:
        return data

    query = parse_query(variant.query if variant.media.startswith("application/apply") else "")
    response = await cluster.handle(
        Request(
            method=variant.method,
            path=path,
            query=query,
            headers={"Content-Type": variant.media, "Accept": "application/json"},
            info=parse_request_info(variant.method, path, query),
            read_body=read_body,
            user=User(name="admin", groups=(MASTERS,)),
        )
    )
    assert isinstance(response, Response)
    assert response.status in (200, 201), response.body
    return response


async def cost(cluster: Cluster, variant: Variant) -> float:
    """CPU microseconds of one request."""
    for index in range(SIZE):
        await send(cluster, variant, index)
    fastest = float("inf")
    for batch in range(BATCHES):
        start = time.thread_time()
        for index in range(SIZE):
            await send(cluster, variant, batch * SIZE + index)
        fastest = min(fastest, time.thread_time() - start)
    return fastest / SIZE * 1e6


def variants(stored: dict[str, Any]) -> dict[str, Variant]:
    """All variants, for a pod as the server returned it."""

    def changed(tree: dict[str, Any], index: int) -> dict[str, Any]:
        tree = copy.deepcopy(tree)
        tree["metadata"]["labels"]["label-0"] = f"value-{index}"
        return tree

    stored["metadata"].pop("resourceVersion")
    config = pod()
    bodies, same_config = orjson.dumps(stored), orjson.dumps(config)
    as_yaml, as_cbor = yaml.safe_dump(config).encode(), cbor.encode_value(config)
    turns = [orjson.dumps(changed(stored, index)) for index in range(BATCHES * SIZE)]
    applied = [orjson.dumps(changed(config, index)) for index in range(BATCHES * SIZE)]
    apply = "application/apply-patch+yaml"
    return {
        "update, unchanged": Variant("PUT", "application/json", lambda _: bodies),
        "update, changed": Variant("PUT", "application/json", lambda index: turns[index]),
        "apply, unchanged": Variant("PATCH", apply, lambda _: same_config),
        "apply, unchanged, CBOR": Variant(
            "PATCH", "application/apply-patch+cbor", lambda _: as_cbor
        ),
        "apply, unchanged, YAML": Variant("PATCH", apply, lambda _: as_yaml),
        "apply, changed": Variant("PATCH", apply, lambda index: applied[index]),
    }


async def main() -> None:
    async with open_cluster(Config()) as cluster:
        await create_system_namespaces(cluster.server)
        account = {"metadata": {"name": "default"}}
        make = Variant("POST", "application/json", lambda _: orjson.dumps(account))
        await send(cluster, make, 0, "/api/v1/namespaces/default/serviceaccounts")
        first = Variant("PATCH", "application/apply-patch+yaml", lambda _: orjson.dumps(pod()))
        response = await send(cluster, first, 0)
        assert isinstance(response.body, bytes)
        print(f"a pod of {len(response.body)} bytes, {len(orjson.dumps(pod()))} of them applied")
        for name, variant in variants(orjson.loads(response.body)).items():
            print(f"{name:24} {await cost(cluster, variant):8.0f} us")


if __name__ == "__main__":
    asyncio.run(main())
