"""`python -m tests.bench.decisions`: what RBAC costs, in CPU time of this process.

Prints the microseconds of one decision with 10,000 role bindings in one namespace, and the ratio of
a GET with RBAC to one with AlwaysAllow, by alternating rounds. The GET passes filters and handler,
but no socket, which would only hide a difference.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.user import APISERVER, AUTHENTICATED, MASTERS, User
from kapiserver.app import serve
from kapiserver.cluster import Cluster

BINDINGS = 10_000
DECISIONS = 20_000
ROUNDS, REQUESTS = 201, 50
PATH = "/api/v1/namespaces/default/configmaps/c"
RBAC = "rbac.authorization.k8s.io/v1"


async def _fill(server: Server, bindings: int) -> None:
    """Create a ConfigMap, and role bindings of other users; jane's is the last."""

    async def create(version: str, resource: str, body: dict[str, object]) -> None:
        client = server.client(APISERVER, authorize=False)
        await client.resource(version, resource, namespace="default").create(body)

    await create("v1", "configmaps", {"metadata": {"name": "c"}, "data": {"k": "v"}})
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}
    await create(RBAC, "roles", {"metadata": {"name": "reader"}, "rules": [rule]})
    reference = {"apiGroup": RBAC.partition("/")[0], "kind": "Role", "name": "reader"}
    for number in range(bindings):
        name = "jane" if number == bindings - 1 else f"user-{number}"
        subjects = [{"kind": "User", "name": name}]
        body = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
        await create(RBAC, "rolebindings", body)


async def _no_body(_limit: int) -> bytes:
    return b""


async def _get(cluster: Cluster) -> None:
    request = Request(
        method="GET",
        path=PATH,
        query={},
        headers={"Authorization": "Bearer jane-token", "Accept": "application/json"},
        info=parse_request_info("GET", PATH, {}),
        read_body=_no_body,
    )
    response = await cluster.handle(request)
    assert response.status == 200, response


async def _cpu_seconds(call: Callable[[], Awaitable[object]], count: int) -> float:
    started = time.process_time()
    for _ in range(count):
        await call()
    return (time.process_time() - started) / count


async def _print_decisions(server: Server) -> None:
    users = {
        "allowed by a binding": User(name="jane", groups=("dev", AUTHENTICATED)),
        "refused": User(name="kim", groups=("dev", AUTHENTICATED)),
        "in system:masters": User(name="root", groups=(MASTERS, AUTHENTICATED)),
    }
    info = parse_request_info("GET", PATH, {})
    for user_kind, user in users.items():
        seconds = await _cpu_seconds(lambda: server.authorizer.authorize(user, info), DECISIONS)  # noqa: B023
        print(f"| decision, {user_kind} | {seconds * 1e6:.2f} us |")


async def _print_ratio(rbac: Cluster, other: Cluster) -> None:
    pairs = []
    for _ in range(ROUNDS):
        pairs.append([await _cpu_seconds(lambda: _get(each), REQUESTS) for each in (rbac, other)])  # noqa: B023
    ratios = sorted(rbac_us / other_us for rbac_us, other_us in pairs)
    figures = [statistics.median(each) * 1e6 for each in zip(*pairs, strict=True)]
    print(
        f"| GET, RBAC to AlwaysAllow | {figures[0]:.0f} us to {figures[1]:.0f} us "
        f"| {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}) |"
    )


async def main() -> None:
    """Start two servers, fill them, and print the rows."""
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "tokens").write_text('jane-token,jane,1,"dev"\n')
        config = Config.of(
            secure_port=None,
            insecure_port=0,
            controllers=("-*",),
            token_auth_file=folder / "tokens",
        )
        always_allow = config.replace(authorization_mode=("AlwaysAllow",))
        rbac = await stack.enter_async_context(serve(config))
        other = await stack.enter_async_context(serve(always_allow))
        await _fill(rbac.cluster.server, BINDINGS)
        await _fill(other.cluster.server, 1)
        gc.collect()
        gc.freeze()  # as a serving process does after its start
        await _print_decisions(rbac.cluster.server)
        await _print_ratio(rbac.cluster, other.cluster)


if __name__ == "__main__":
    asyncio.run(main())
