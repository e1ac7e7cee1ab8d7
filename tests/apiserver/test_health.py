"""/healthz, /livez and /readyz."""

import asyncio
import contextlib
import logging
import re

import pytest

from kapiserver.apiserver.health import Health, HealthCheck, check_log
from kapiserver.apiserver.request import parse_query
from tests.apiserver.conftest import Api


async def _unhealthy() -> None:
    raise OSError("secret detail")


async def _healthy() -> None:
    pass


def _health(
    *, finished: bool = True, draining: bool = False, etcd: HealthCheck = _healthy
) -> Health:
    health = Health(
        alive={"etcd": etcd}, ready={"informer-sync": _healthy}, hooks=("first", "rbac/second")
    )
    health.finish("first")
    if finished:
        health.finish("rbac/second")
    if draining:
        health.drain()
    return health


STARTING = {"finished": False}
DRAINING = {"draining": True}
_HOOKS = "[+]poststarthook/first ok\n[+]poststarthook/rbac/second ok\n"
CASES = [
    # state, path, status, body
    ({}, "/healthz", 200, "ok"),
    ({}, "/livez?verbose", 200, f"[+]ping ok\n[+]etcd ok\n{_HOOKS}livez check passed\n"),
    ({}, "/readyz?verbose", 200,
     f"[+]ping ok\n[+]etcd ok\n[+]informer-sync ok\n{_HOOKS}[+]shutdown ok\n"
     "readyz check passed\n"),
    ({}, "/readyz/ping", 200, "ok"),
    ({}, "/livez/poststarthook/rbac/second", 200, "ok"),
    ({}, "/livez/informer-sync", 404, "404 page not found\n"),
    ({}, "/readyz/nothing", 404, "404 page not found\n"),
    ({}, "/livez?verbose&exclude=etcd&exclude=x", 200,
     f"[+]ping ok\n[+]etcd excluded: ok\n{_HOOKS}"
     'warn: some health checks cannot be excluded: no matches for "x"\nlivez check passed\n'),
    (STARTING, "/readyz", 500,
     "[+]ping ok\n[+]etcd ok\n[+]informer-sync ok\n[+]poststarthook/first ok\n"
     "[-]poststarthook/rbac/second failed: reason withheld\n[+]shutdown ok\n"
     "readyz check failed\n"),
    (STARTING, "/livez", 500,
     "[+]ping ok\n[+]etcd ok\n[+]poststarthook/first ok\n"
     "[-]poststarthook/rbac/second failed: reason withheld\nlivez check failed\n"),
    (STARTING, "/livez/poststarthook/first", 200, "ok"),
    (DRAINING, "/readyz/shutdown", 500,
     "internal server error: reason withheld\n"),
    (DRAINING, "/readyz?exclude=shutdown", 200, "ok"),
    (DRAINING, "/livez", 200, "ok"),
]  # fmt: skip


def _get(health: Health, target: str) -> tuple[int, str]:
    path, _, query = target.partition("?")
    response = asyncio.run(health.respond(path.strip("/").split("/"), parse_query(query)))
    assert isinstance(response.body, bytes)
    return response.status, response.body.decode()


@pytest.mark.parametrize(("state", "target", "status", "body"), CASES)
def test_responses(state: dict[str, bool], target: str, status: int, body: str) -> None:
    """The response bodies equal those of kube-apiserver."""
    assert _get(_health(**state), target) == (status, body)


def test_reasons_are_withheld() -> None:
    """The response does not tell clients why a check failed."""
    status, body = _get(_health(etcd=_unhealthy), "/livez")
    assert status == 500
    assert body == f"[+]ping ok\n[-]etcd failed: reason withheld\n{_HOOKS}livez check failed\n"


def test_checks_of_a_server(api: Api) -> None:
    """A server has the checks of kube-apiserver that are true of it, and each passes alone."""
    names = {}
    for path in ("healthz", "livez", "readyz"):
        text = api.get(f"/{path}?verbose").body.decode()
        names[path] = re.findall(r"^\[\+\](\S+) ok$", text, re.MULTILINE)
        assert all(api.get(f"/{path}/{name}").body == b"ok" for name in names[path])
    hooks = [name for name in names["livez"] if name.startswith("poststarthook/")]
    assert "poststarthook/bootstrap-controller" in hooks
    assert names["healthz"] == names["livez"] == ["ping", "log", "etcd", *hooks]
    ready = ["ping", "log", "etcd", "etcd-readiness", "informer-sync", *hooks, "shutdown"]
    assert names["readyz"] == ready


def test_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check `log` fails when the log cannot be written."""
    health = Health(alive={"log": check_log})
    assert _get(health, "/livez/log") == (200, "ok")
    with open("/dev/full", "w") as full:
        handler = logging.StreamHandler(full)
        full.write("x")
        monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
        assert _get(health, "/livez/log")[0] == 500
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    assert _get(health, "/livez/log") == (200, "ok"), "nobody reads a closed stream"
