"""/healthz, /livez and /readyz."""

import asyncio
import contextlib
import logging
import re
from collections.abc import Collection
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.health import (
    AUTOREGISTRATION,
    CRD_HOOK,
    ENCRYPTION_HOOK,
    RBAC_HOOK,
    Health,
    HealthCheck,
    check_log,
)
from kapiserver.apiserver.request import parse_query
from kapiserver.cluster import open_cluster
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


HOOKS = (
    "start-apiserver-admission-initializer",
    "generic-apiserver-start-informers",
    "priority-and-fairness-config-consumer",
    "priority-and-fairness-filter",
    "storage-object-count-tracker-hook",
    "start-apiextensions-informers",
    "start-apiextensions-controllers",
    "crd-informer-synced",
    "start-system-namespaces-controller",
    "peer-endpoint-reconciler-controller",
    "mixed-version-proxy-handler",
    "local-discovery-cache-sync",
    "peer-discovery-workers",
    "start-cluster-authentication-info-controller",
    "start-kube-apiserver-identity-lease-controller",
    "start-kube-apiserver-identity-lease-garbage-collector",
    "storage-readiness",
    "start-legacy-token-tracking-controller",
    "start-service-ip-repair-controllers",
    "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes",
    "priority-and-fairness-config-producer",
    "bootstrap-controller",
    "start-kubernetes-service-cidr-controller",
    "aggregator-reload-proxy-client-cert",
    "start-kube-aggregator-informers",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "apiservice-registration-controller",
    "apiservice-discovery-controller",
    "kube-apiserver-autoregistration",
    AUTOREGISTRATION,
    "apiservice-openapi-controller",
    "apiservice-openapiv3-controller",
)
"""The steps of kube-apiserver 1.37.2 with its default feature gates, in its order."""
ABSENT = {
    "storage-object-count-tracker-hook",
    "peer-endpoint-reconciler-controller",
    "mixed-version-proxy-handler",
    "local-discovery-cache-sync",
    "peer-discovery-workers",
    "start-kube-apiserver-identity-lease-controller",
    "storage-readiness",
    "start-legacy-token-tracking-controller",
    "aggregator-reload-proxy-client-cert",
}
"""Those of parts that this server does not have: some only alone, or without certificates."""


def test_checks_of_a_server(api: Api) -> None:
    """A server has the checks of kube-apiserver that are true of it, and each passes alone."""
    names = {}
    for path in ("healthz", "livez", "readyz"):
        text = api.get(f"/{path}?verbose").body.decode()
        names[path] = re.findall(r"^\[\+\](\S+) ok$", text, re.MULTILINE)
        assert all(api.get(f"/{path}/{name}").body == b"ok" for name in names[path])
    hooks = names["livez"][names["livez"].index("etcd") + 1 :]
    assert hooks == [
        name if name == AUTOREGISTRATION else f"poststarthook/{name}"
        for name in HOOKS
        if name not in ABSENT
    ]
    for name in names["readyz"]:
        excluded = api.get(f"/readyz?verbose&exclude={name}").body.decode()
        assert f"[+]{name} excluded: ok\n" in excluded
        assert "warn: " not in excluded
    assert names["healthz"] == names["livez"] == ["ping", "log", "etcd", *hooks]
    ready = ["ping", "log", "etcd", "etcd-readiness", "informer-sync", *hooks, "shutdown"]
    assert names["readyz"] == ready


def test_definitions_are_loaded_once() -> None:
    """The step `crd-informer-synced` is finished once the definitions are loaded, and stays so."""
    loaded = [False]
    health = Health(hooks=(CRD_HOOK,), conditions={CRD_HOOK: lambda: loaded[0]})
    path = f"/livez/poststarthook/{CRD_HOOK}"
    assert _get(health, path)[0] == 500
    loaded[0] = True
    assert _get(health, path) == (200, "ok")
    loaded[0] = False
    assert _get(health, path) == (200, "ok")


def test_optional_hooks() -> None:
    """A server without RBAC has no hook for it; one that reads its encryption configuration again
    has one."""

    async def checks(**settings: Any) -> Collection[str]:
        async with open_cluster(Config.of(storage="sqlite::memory:", **settings)) as cluster:
            return cluster.server.health.checks("livez")

    encryption, rbac = f"poststarthook/{ENCRYPTION_HOOK}", f"poststarthook/{RBAC_HOOK}"
    names = asyncio.run(checks())
    assert (rbac in names, encryption in names) == (True, False)
    settings = {"encryption_provider_config_automatic_reload": True}
    names = asyncio.run(checks(authorization_mode=("AlwaysAllow",), **settings))
    assert (rbac in names, encryption in names) == (False, True)


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


def test_service_level_indicators(api: Api) -> None:
    """/metrics/slis has the results of the checks that requests have run; checks that a request
    asks for alone, and excluded ones, are not counted."""
    path = "/metrics/slis"
    api.get("/readyz/ping")
    before = _numbers(api.get(path).body.decode())
    assert api.get("/readyz?exclude=etcd").status == 200
    after = _numbers(api.get(path).body.decode())
    last = '{name="%s",type="readyz"}'
    count = '{name="%s",type="readyz",status="success"}'
    assert after[f"kubernetes_healthcheck{last % 'ping'}"] == 1
    for name, difference in (("ping", 1), ("shutdown", 1), ("etcd", 0)):
        series = f"kubernetes_healthchecks_total{count % name}"
        assert after.get(series, 0) - before.get(series, 0) == difference
    assert api.delete(path).status == 405
    assert path in api.get("/").json["paths"]


def test_failed_check_is_an_indicator() -> None:
    """A check that fails is 0, and counts as an error."""
    health = _health(etcd=_unhealthy)
    asyncio.run(health.respond(["livez"], {}))
    assert health.results.values[("etcd", "livez")] == 0
    assert health.result_counts.values[("etcd", "livez", "error")] == 1


def _numbers(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(number) for name, _, number in (line.rpartition(" ") for line in lines)}
