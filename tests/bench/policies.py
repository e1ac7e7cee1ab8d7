"""`python -m tests.bench.policies`: what admission policies cost, in CPU time of the event loop.

Five servers take turns in one process: without policies, with 100 policies of each kind for other
resources, and with one policy that matches: simple, rich or mutating. Each turn creates ConfigMaps
in dry runs through the internal client (see `webhooks.py`). Prints the first quartiles of the
turns, once for the even rounds and once for the odd ones; the difference between the two shows the
noise. Before that it prints the bytecode instructions of a create, which no other program disturbs.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import statistics
from collections.abc import Sequence

import uvloop

from kapiserver.api.resource_client import Client
from kapiserver.api.types import Tree
from tests.bench.webhooks import REGISTRATION, count_instructions, start, turn

POLICIES = 100
ROUNDS, REQUESTS = 120, 30
SIMPLE: Tree = {"validations": [{"expression": "object.data.k == 'v'"}]}
RICH: Tree = {
    "matchConditions": [{"name": "c", "expression": "object.metadata.name != 'x'"}],
    "variables": [{"name": "v", "expression": "object.data.k"}],
    "validations": [
        {
            "expression": "variables.v == 'v' && request.operation == 'CREATE' && "
            "namespaceObject.metadata.name == 'default'"
        }
    ],
}
LABEL = "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"
MUTATING: Tree = {
    "reinvocationPolicy": "Never",
    "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": LABEL}}],
}


async def add_policy(client: Client, name: str, spec: Tree, resource: str) -> None:
    """Create a policy for creates of a core resource, and its binding."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"]}
    constraints = {"resourceRules": [{**rule, "resources": [resource]}]}
    kind, binding = "mutatingadmissionpolic", {}
    if "validations" in spec:
        kind, binding = "validatingadmissionpolic", {"validationActions": ["Deny"]}
    body = {"metadata": {"name": name}, "spec": {"matchConstraints": constraints, **spec}}
    await client.resource(REGISTRATION, f"{kind}ies").create(body)
    body = {"metadata": {"name": name}, "spec": {"policyName": name, **binding}}
    await client.resource(REGISTRATION, f"{kind}ybindings").create(body)


def _quartile(rounds: Sequence[Sequence[float]], which: int) -> float:
    """Return the first quartile of the turns of a server, which other programs disturb less than
    the median."""
    return statistics.quantiles([each[which] for each in rounds], n=4)[0]


async def _wait_until_checked(client: Client) -> None:
    """Wait until the controller has written the status of all validating policies, because each
    write makes the index of policies anew."""
    policies = client.resource(REGISTRATION, "validatingadmissionpolicies")
    for _ in range(600):
        if all("status" in policy for policy in (await policies.list())["items"]):
            return
        await asyncio.sleep(0.1)
    raise TimeoutError


async def _measure() -> None:
    async with contextlib.AsyncExitStack() as stack:
        plain, crowded, simple, rich, mutating = [await start(stack) for _ in range(5)]
        for index in range(POLICIES):
            await add_policy(crowded, f"v-{index}", SIMPLE, "secrets")
            await add_policy(crowded, f"m-{index}", MUTATING, "secrets")
        await add_policy(simple, "simple", SIMPLE, "configmaps")
        await add_policy(rich, "rich", RICH, "configmaps")
        await add_policy(mutating, "mutating", MUTATING, "configmaps")
        clients = (plain, crowded, simple, rich, mutating)
        for client in clients:
            await _wait_until_checked(client)
            await turn(client, REQUESTS)
        gc.collect()
        gc.disable()
        counts = [await count_instructions(client) for client in clients]
        print("instructions of a create:", round(counts[0]))
        names = ("others", "simple", "rich", "mutating")
        for name, count in zip(names, counts[1:], strict=True):
            print(f"with {name}: {count / counts[0]:.3f} x")
        rounds = []
        for index in range(ROUNDS):
            # Each client follows each other equally often.
            order = [(index + step * (1 + index % 4)) % 5 for step in range(5)]
            costs = {which: await turn(clients[which], REQUESTS) for which in order}
            rounds.append([costs[which] for which in range(5)])
            await asyncio.sleep(0)
    for half in (rounds[::2], rounds[1::2]):
        plain_cost, crowded_cost, *others = [_quartile(half, which) for which in range(5)]
        simple_cost, rich_cost, mutating_cost = [each - plain_cost for each in others]
        print(f"a create without policies: {plain_cost:.0f} us")
        print(f"with {2 * POLICIES} policies that do not match: {crowded_cost / plain_cost:.3f} x")
        print(f"one simple policy: {simple_cost:.0f} us")
        print(f"one rich policy: {rich_cost:.0f} us")
        print(f"one mutating policy: {mutating_cost:.0f} us")


if __name__ == "__main__":
    uvloop.run(_measure())
