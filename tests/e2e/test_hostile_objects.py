"""Objects of every kind with unexpected values: the server accepts or refuses them, never with a
500."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.every_kind import APPLY, JSON, MERGE, STRATEGIC, Api, Served, discover, objects
from tests.e2e.programs import Server, start, stop

TEXTS = [
    "", "a", "A", "a" * 64, "a" * 254, "/", "..", "../x", "ÿ", "\0", "0", "-1", "1.5", "1e400",
    "1Gi", "-1Gi", "10.0.0.1", "999.1.1.1", "::1", "10.0.0.0/8", "::/0", "fe80::1%eth0", "a.b/c",
    "a b", "*", "Always", "TCP", "In", "Exists", "Gt", "kubernetes.io/x", "https://x", "http://[",
    "true", "null", "{}", "[", "(", "$(x)", "a\nb", "x" * 5000, "2024-01-01T00:00:00Z",
    "0 0 * * *", "TZ=UTC 0 0 * * *", "65536", "100%", "-5%", "self.x", "sha256:a", "1.2.3.4/33",
    "system:masters", "Local", "ExternalName", "None",
]  # fmt: skip
NUMBERS = [0, 1, -1, 2, 100, 65535, 65536, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 1.5]


def values(tree: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of each value below the top level of an object."""
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in parts:
        if path or key not in ("kind", "apiVersion", "metadata"):
            yield (*path, key)
        if isinstance(value, dict | list):
            yield from values(value, (*path, key))


def spoil(rng: random.Random, obj: Any) -> Any:
    """A copy in which some values are missing, empty, duplicated or of another type."""
    obj = copy.deepcopy(obj)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        paths = list(values(obj))
        if not paths:
            break
        *steps, last = rng.choice(paths)
        at = obj
        for step in steps:
            at = at[step]
        old = at[last]
        if rng.random() < 0.25:
            del at[last]
        elif isinstance(old, bool):
            at[last] = not old
        elif isinstance(old, str):
            at[last] = rng.choice(TEXTS)
        elif isinstance(old, int | float):
            at[last] = rng.choice(NUMBERS)
        elif isinstance(old, list):
            at[last] = rng.choice(([], old + old, old[::-1], None))
        elif isinstance(old, dict):
            at[last] = rng.choice(({}, None, {**old, rng.choice(TEXTS): "x"}))
    return obj


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hostile")
    running = start(folder, "--runtime-config=api/all=true")
    yield running
    stop(running)


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 800), pytest.param(2, 30_000, marks=pytest.mark.slow)]
)
def test_no_internal_errors(server: Server, seed: int, count: int) -> None:
    """Create, replace, patch and apply of spoilt objects, for existing and absent names, are never
    a 500."""
    rng, api = random.Random(seed), Api(server)
    kinds = discover(api)
    targets = [(kinds[of], obj) for obj in objects() if (of := _kind(obj)) in kinds]
    for kind, obj in targets:
        api.request("POST", kind.path("default"), obj)
    for _ in range(count):
        kind, obj = rng.choice(targets)
        method, path, content_type = _question(rng, kind, obj["metadata"]["name"])
        body = spoil(rng, obj)
        response = api.request(
            method, path + "dryRun=All&fieldManager=m", body, content_type=content_type
        )
        assert response.status < 500, (method, path, content_type, body, response.body)
    api.close()


def _kind(obj: Any) -> tuple[str, str]:
    return obj["apiVersion"], obj["kind"]


def _question(rng: random.Random, kind: Served, name: str) -> tuple[str, str, str]:
    collection = kind.path("default")
    status = "/status" if rng.random() < 0.2 and "status" in kind.subresources else ""
    item = f"{collection}/{rng.choice((name, name, 'none'))}{status}?"
    return rng.choice(
        (
            ("POST", f"{collection}?", JSON),
            ("PUT", item, JSON),
            ("PATCH", item, MERGE),
            ("PATCH", item, STRATEGIC),
            ("PATCH", f"{item}force=true&", APPLY),
        )
    )
