"""The metrics of the fetches of the keys of token issuers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kapiserver.apiserver.serving.metrics.server_families import ServerFamilies
from tests.apiserver.authentication.test_jwt import (
    NOW,
    OTHER_RSA_KEY,
    Issuer,
    Login,
    configuration,
    run,
)


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    issuer = Issuer(tmp_path / "issuer")
    yield issuer
    issuer.server.end()


def test_metrics_of_key_fetches(issuer: Issuer, tmp_path: Path) -> None:
    """The last fetch of keys of each issuer is known by result, and the hash of the keys; issuers
    that a new configuration leaves out are not."""

    async def check(login: Login) -> None:
        fetches = login.cluster.server.metrics.authentication.key_fetches
        await login.user(issuer.token())
        body = json.dumps({"keys": issuer.keys}).encode()
        (name,) = fetches
        assert name == f"sha256:{hashlib.sha256(issuer.url.encode()).hexdigest()}"
        assert fetches[name].times.values == {"success": NOW}
        assert fetches[name].hash == f"sha256:{hashlib.sha256(body).hexdigest()}"
        issuer.keys = None
        login.clock.advance(100)
        await login.refused(issuer.token(key=OTHER_RSA_KEY))
        assert fetches[name].times.values == {"success": NOW, "failure": NOW + 100}
        families = {each.name: each for each in ServerFamilies(login.cluster.server)}
        prefix = "apiserver_authentication_jwt_authenticator_jwks_fetch_last"
        hashes = [labels[-1] for labels, _ in families[f"{prefix}_key_set_info"].series]
        assert hashes == [fetches[name].hash]
        times = families[f"{prefix}_timestamp_seconds"].series
        assert {labels[0]: seconds for labels, seconds in times} == fetches[name].times.values
        login.file.write_text(configuration())
        login.cluster.authentication.reload()
        assert not fetches

    run(tmp_path, configuration(issuer.authenticator()), check)
