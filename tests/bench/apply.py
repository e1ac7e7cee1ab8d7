"""What server-side apply costs beside an update, in this process and without HTTP:
`python -m tests.bench.apply`.

Each way sends a pod of 14 KB that is stored already, unchanged or with a change; figures are CPU
microseconds of one request, the least of some batches.
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

from kapiserver.apiserver.authentication.user import MASTERS, User
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.request import Request, parse_query
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.response import Response
from kapiserver.app import App, build_app
from kapiserver.codecs import cbor
from kapiserver.controllers.bootstrap import create_system_namespaces

PATH = "/api/v1/namespaces/default/pods"
BATCHES, SIZE = 15, 20


def pod(containers: int = 3, variables: int = 19) -> dict[str, Any]:
    """A pod that is about 14 KB when it is stored, as a user applies it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "big", "labels": {f"label-{n}": "value" for n in range(8)}},
        "spec": {
            "automountServiceAccountToken": False,
            "volumes": [{"name": f"volume-{n}", "emptyDir": {}} for n in range(6)],
            "containers": [
                {
                    "name": f"container-{one}",
                    "image": "registry.example/team/image:1.27",
                    "args": ["--verbose", "--port=8080"],
                    "ports": [{"name": f"p{one}", "containerPort": 8080 + one}],
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
                for one in range(containers)
            ],
        },
    }


@dataclass(frozen=True)
class Way:
    """One kind of request: how it is sent, and the body of its turn."""

    method: str
    media: str
    body: Callable[[int], bytes]
    query: str = "fieldManager=bench&force=true"


async def send(app: App, way: Way, turn: int, path: str = f"{PATH}/big") -> Response:
    """The answer to one request."""
    data = way.body(turn)

    async def read_body(limit: int) -> bytes:
        return data

    query = parse_query(way.query if way.media.startswith("application/apply") else "")
    answer = await app.handle(
        Request(
            method=way.method,
            path=path,
            query=query,
            headers={"Content-Type": way.media, "Accept": "application/json"},
            info=parse_request_info(way.method, path, query),
            read_body=read_body,
            user=User(name="admin", groups=(MASTERS,)),
        )
    )
    assert isinstance(answer, Response)
    assert answer.status in (200, 201), answer.body
    return answer


async def cost(app: App, way: Way) -> float:
    """CPU microseconds of one such request."""
    for turn in range(SIZE):
        await send(app, way, turn)
    least = float("inf")
    for batch in range(BATCHES):
        begin = time.thread_time()
        for turn in range(SIZE):
            await send(app, way, batch * SIZE + turn)
        least = min(least, time.thread_time() - begin)
    return least / SIZE * 1e6


def ways(stored: dict[str, Any]) -> dict[str, Way]:
    """All of them, for a pod as the server answered it."""

    def changed(tree: dict[str, Any], turn: int) -> dict[str, Any]:
        tree = copy.deepcopy(tree)
        tree["metadata"]["labels"]["label-0"] = f"value-{turn}"
        return tree

    stored["metadata"].pop("resourceVersion")
    config = pod()
    same, same_config = orjson.dumps(stored), orjson.dumps(config)
    as_yaml, as_cbor = yaml.safe_dump(config).encode(), cbor.encode_value(config)
    turns = [orjson.dumps(changed(stored, turn)) for turn in range(BATCHES * SIZE)]
    applied = [orjson.dumps(changed(config, turn)) for turn in range(BATCHES * SIZE)]
    apply = "application/apply-patch+yaml"
    return {
        "update, unchanged": Way("PUT", "application/json", lambda _: same),
        "update, changed": Way("PUT", "application/json", lambda turn: turns[turn]),
        "apply, unchanged": Way("PATCH", apply, lambda _: same_config),
        "apply, unchanged, CBOR": Way("PATCH", "application/apply-patch+cbor", lambda _: as_cbor),
        "apply, unchanged, YAML": Way("PATCH", apply, lambda _: as_yaml),
        "apply, changed": Way("PATCH", apply, lambda turn: applied[turn]),
    }


async def main() -> None:
    app = await build_app(Config())
    try:
        await create_system_namespaces(app.server)
        account = {"metadata": {"name": "default"}}
        make = Way("POST", "application/json", lambda _: orjson.dumps(account))
        await send(app, make, 0, "/api/v1/namespaces/default/serviceaccounts")
        first = Way("PATCH", "application/apply-patch+yaml", lambda _: orjson.dumps(pod()))
        answer = await send(app, first, 0)
        assert isinstance(answer.body, bytes)
        print(f"a pod of {len(answer.body)} bytes, {len(orjson.dumps(pod()))} of them applied")
        for name, way in ways(orjson.loads(answer.body)).items():
            print(f"{name:24} {await cost(app, way):8.0f} us")
    finally:
        await app.kv.close()


if __name__ == "__main__":
    asyncio.run(main())
