"""/healthz, /livez and /readyz."""

import asyncio

import pytest

from kapiserver.apiserver.health import Health, Probe
from kapiserver.apiserver.request import parse_query


async def _broken() -> None:
    raise OSError("secret detail")


async def _fine() -> None:
    pass


def _health(*states: str, storage: Probe = _fine) -> Health:
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


def _ask(health: Health, target: str) -> tuple[int, str]:
    path, _, query = target.partition("?")
    answer = asyncio.run(health.answer(path.strip("/").split("/"), parse_query(query)))
    assert isinstance(answer.body, bytes)
    return answer.status, answer.body.decode()


@pytest.mark.parametrize(("state", "target", "status", "body"), CASES)
def test_answers(state: tuple[str, ...], target: str, status: int, body: str) -> None:
    """The texts are kube-apiserver's."""
    assert _ask(_health(*state), target) == (status, body)


def test_reasons_are_withheld() -> None:
    """Why a check failed is not for the client."""
    health = _health(*READY, storage=_broken)
    status, body = _ask(health, "/livez")
    assert status == 500
    assert body == "[+]ping ok\n[-]storage failed: reason withheld\nlivez check failed\n"
