"""/healthz, /livez and /readyz."""

import asyncio

import pytest

from kapiserver.apiserver.health import Health, HealthCheck
from kapiserver.apiserver.request import parse_query


async def _unhealthy() -> None:
    raise OSError("secret detail")


async def _healthy() -> None:
    pass


def _health(*states: str, storage: HealthCheck = _healthy) -> Health:
    health = Health(alive={"storage": storage})
    for state in states:
        getattr(health, state)()
    return health


READY = ("start",)
DRAINING = ("start", "drain")
CASES = [
    # state, path, status, body
    (READY, "/healthz", 200, "ok"),
    (READY, "/livez?verbose", 200, "[+]ping ok\n[+]storage ok\nlivez check passed\n"),
    (READY, "/readyz?verbose", 200,
     "[+]ping ok\n[+]storage ok\n[+]bootstrap ok\n[+]shutdown ok\nreadyz check passed\n"),
    (READY, "/readyz/ping", 200, "ok"),
    (READY, "/readyz/nothing", 404, "404 page not found\n"),
    (READY, "/livez?verbose&exclude=storage&exclude=x", 200,
     '[+]ping ok\n[+]storage excluded: ok\n'
     'warn: some health checks cannot be excluded: no matches for "x"\nlivez check passed\n'),
    ((), "/readyz", 500,
     "[+]ping ok\n[+]storage ok\n[-]bootstrap failed: reason withheld\n[+]shutdown ok\n"
     "readyz check failed\n"),
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
def test_responses(state: tuple[str, ...], target: str, status: int, body: str) -> None:
    """The response bodies equal those of kube-apiserver."""
    assert _get(_health(*state), target) == (status, body)


def test_reasons_are_withheld() -> None:
    """The response does not tell clients why a check failed."""
    health = _health(*READY, storage=_unhealthy)
    status, body = _get(health, "/livez")
    assert status == 500
    assert body == "[+]ping ok\n[-]storage failed: reason withheld\nlivez check failed\n"
