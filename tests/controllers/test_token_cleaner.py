"""Bootstrap tokens are deleted when they expire."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.user import APISERVER
from kapiserver.cluster import open_cluster
from kapiserver.controllers.manager import apiserver_context
from kapiserver.controllers.tokens.token_cleaner import TokenCleaner
from kapiserver.parts import Parts
from tests.clock import ManualClock
from tests.controllers.waiting import until_gone

SECRETS = "/api/v1/namespaces/kube-system/secrets"


def bootstrap_token(name, seconds, now, type="bootstrap.kubernetes.io/token"):
    moment = datetime.fromtimestamp(now + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    data = {"expiration": base64.b64encode(moment.encode()).decode()}
    return {"metadata": {"name": name}, "type": type, "data": data}


def test_expired_tokens(make_server):
    """The controller, once it is turned on, deletes expired tokens and nothing else. Its role gives
    it the right."""
    api = make_server(controllers=("*", "tokencleaner")).api
    now = datetime.now(UTC).timestamp()
    for name, seconds, type_ in (
        ("bootstrap-token-ffffff", 3600, "bootstrap.kubernetes.io/token"),
        ("other", -60, "Opaque"),
        ("bootstrap-token-aaaaaa", -60, "bootstrap.kubernetes.io/token"),
    ):
        assert api.post(SECRETS, bootstrap_token(name, seconds, now, type_)).status == 201
    until_gone(api, SECRETS, "bootstrap-token-aaaaaa")
    assert api.get(f"{SECRETS}/bootstrap-token-ffffff").status == 200
    assert api.get(f"{SECRETS}/other").status == 200


def test_tokens_that_expire_later():
    """A token is deleted when its time comes; one timer waits for it, however often the Secret
    changes."""

    async def run():
        clock = ManualClock()
        async with open_cluster(Config(), Parts(clock=clock)) as cluster:
            client = cluster.server.client(APISERVER, authorize=False)
            await client.resource("v1", "namespaces").create({"metadata": {"name": "kube-system"}})
            secrets = client.resource("v1", "secrets", namespace="kube-system")
            cleaner = TokenCleaner(apiserver_context(cluster.server))
            cleaner.start()
            waiting = len(clock.timers)
            await secrets.create(bootstrap_token("bootstrap-token-aaaaaa", 60, clock.now()))
            for number in range(3):
                patch = {"metadata": {"labels": {"n": str(number)}}}
                await secrets.patch("bootstrap-token-aaaaaa", patch)
                for _ in range(20):
                    await asyncio.sleep(0)
            timers = [timer for timer in clock.timers[waiting:] if not timer.cancelled]
            due = [timer for timer in timers if timer.at == clock.now() + 60]
            assert len(due) == 1
            async with asyncio.timeout(30):
                events = secrets.watch()
                assert (await anext(events)).type == "ADDED"
                clock.advance(60)
                assert (await anext(events)).type == "DELETED"
                await events.aclose()
            await cleaner.stop()

    asyncio.run(run())
