"""ImagePolicyWebhook with a real HTTPS server. The cases follow admission_test.go and
config_test.go of Kubernetes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.apiserver.admission.configuration import BadAdmissionConfiguration
from kapiserver.apiserver.context import Server
from tests.apiserver.admission.pluginkit import JANE, pod, run, write_configuration
from tests.apiserver.proxy.https_server import Received, Reply, StatusWebhook
from tests.clock import ManualClock

DENIED = 'pods "p" is forbidden: '


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[StatusWebhook]:
    webhook = StatusWebhook(tmp_path / "webhook", {"allowed": True})
    yield webhook
    webhook.server.end()


def settings(webhook: StatusWebhook, **more: Any) -> dict[str, Any]:
    folder = webhook.file.parent
    policy = {"kubeConfigFile": str(webhook.file), "retryBackoff": -1, **more}
    file = write_configuration(folder, "ImagePolicyWebhook", {"imagePolicy": policy})
    return {
        "enable_admission_plugins": ("ImagePolicyWebhook",),
        "disable_admission_plugins": ("ServiceAccount",),
        "admission_control_config_file": file,
    }


def pods(server: Server) -> Any:
    return server.client(JANE).resource("v1", "pods", namespace="default")


async def refusal(write: Any) -> str:
    with pytest.raises(StatusError) as caught:
        await write
    assert caught.value.status["code"] == 403
    message: str = caught.value.status["message"]
    assert message.startswith(DENIED)
    return message.removeprefix(DENIED)


def test_review(webhook: StatusWebhook) -> None:
    """The webhook gets the images of a pod, its annotations of policies and its namespace."""

    async def test(server: Server) -> None:
        body = pod(initContainers=[{"name": "i", "image": "init"}])
        body["metadata"]["annotations"] = {
            "my.image-policy.k8s.io/break-glass": "yes",
            "other.example.com/a": "b",
        }
        await pods(server).create(body)
        ephemeral = {"name": "e", "image": "debug"}
        await pods(server).update(
            {**await pods(server).get("p"), "spec": {"ephemeralContainers": [ephemeral]}},
            subresource="ephemeralcontainers",
        )
        annotations = {"my.image-policy.k8s.io/break-glass": "yes"}
        common = {"annotations": annotations, "namespace": "default"}
        reviews = [received.json for received in webhook.server.received]
        assert [review["spec"] for review in reviews] == [
            {"containers": [{"image": "i"}, {"image": "init"}], **common},
            {"containers": [{"image": "debug"}], **common},
        ]
        assert reviews[0]["apiVersion"] == "imagepolicy.k8s.io/v1alpha1"
        assert reviews[0]["kind"] == "ImageReview"

    run(test, **settings(webhook))


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"allowed": False}, "one or more images rejected by webhook backend"),
        ({}, "one or more images rejected by webhook backend"),
        (
            {"allowed": False, "reason": "not signed"},
            "image policy webhook backend denied one or more images: not signed",
        ),
    ],
)
def test_denied(webhook: StatusWebhook, status: Any, message: str) -> None:
    """A pod whose images the webhook denies is refused with its reason; other writes are not
    reviewed."""
    webhook.status = status

    async def test(server: Server) -> None:
        assert await refusal(pods(server).create(pod())) == message
        maps = server.client(JANE).resource("v1", "configmaps", namespace="default")
        await maps.create({"metadata": {"name": "m"}})
        assert len(webhook.server.received) == 1

    run(test, **settings(webhook))


FAILURES: list[tuple[dict[str, Any], str]] = [
    ({"code": 500}, "an error on the server"),
    ({"code": 403}, "unknown"),
    ({"parts": {"kind": "TokenReview"}}, "not an ImageReview"),
    ({"parts": {"apiVersion": "imagepolicy.k8s.io/v2"}}, "not of version"),
    ({"status": [1]}, "no valid status"),
    ({"status": "yes"}, "no valid status"),
]


@pytest.mark.parametrize(("changes", "message"), FAILURES)
@pytest.mark.parametrize("default_allow", [False, True])
def test_failure(
    webhook: StatusWebhook, changes: dict[str, Any], message: str, default_allow: bool
) -> None:
    """If the webhook fails, a pod is refused, or allowed and marked, as the configuration says."""
    for name, value in changes.items():
        setattr(webhook, name, value)

    async def test(server: Server) -> None:
        if not default_allow:
            assert message in await refusal(pods(server).create(pod()))
            return
        created = await pods(server).create(pod())
        assert created["metadata"]["annotations"] == {
            "alpha.image-policy.k8s.io/failed-open": "true"
        }
        stored = await pods(server).get("p")
        assert stored["metadata"]["annotations"] == created["metadata"]["annotations"]

    run(test, **settings(webhook, defaultAllow=default_allow))


def test_cache(webhook: StatusWebhook) -> None:
    """Verdicts are kept for their times, and failures are not."""
    clock = ManualClock()

    async def test(server: Server) -> None:
        async def calls(image: str) -> int:
            body = pod()
            body["spec"]["containers"][0]["image"] = image
            before = len(webhook.server.received)
            with contextlib.suppress(StatusError):
                await pods(server).create(body, dry_run=True)
            return len(webhook.server.received) - before

        assert [await calls("a"), await calls("a"), await calls("b")] == [1, 0, 1]
        clock.time += 301
        assert await calls("a") == 1
        webhook.status = {"allowed": False}
        assert [await calls("c"), await calls("c")] == [1, 0]
        clock.time += 10.5
        assert await calls("c") == 1
        webhook.code = 403
        assert [await calls("d"), await calls("d")] == [1, 1]

    run(test, clock, **settings(webhook, denyTTL=10))


BAD: list[tuple[Any, str]] = [
    ({"allowTTL": 1801}, "allowTTL: valid value is between 1s and 30m0s, got 1801s"),
    ({"allowTTL": 1}, "allowTTL: valid value is between 1s and 30m0s, got 1s"),
    ({"denyTTL": -2}, "denyTTL: valid value is between 1s and 30m0s, got -2s"),
    ({"retryBackoff": 300001}, "retryBackoff: valid value is between 1ns and 5m0s, got 300.001s"),
    ({"retryBackoff": "1"}, "imagePolicy.retryBackoff must be an integer"),
    ({"kubeConfigFile": "/missing"}, "cannot read the image policy webhook file /missing"),
    ({"kubeConfigFile": 1}, "imagePolicy must be an object with a kubeConfigFile"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_configuration(webhook: StatusWebhook, changes: Any, message: str) -> None:
    """A bad configuration stops the server from starting."""

    async def test(_server: Server) -> None:
        raise AssertionError("the server has started")

    with pytest.raises(BadAdmissionConfiguration) as caught:
        run(test, **settings(webhook, **changes))
    prefix = 'couldn\'t init admission plugin "ImagePolicyWebhook": '
    assert str(caught.value).startswith(prefix)
    assert message in str(caught.value)


def test_no_configuration() -> None:
    """The plugin needs a configuration."""

    async def test(_server: Server) -> None:
        raise AssertionError("the server has started")

    with pytest.raises(BadAdmissionConfiguration, match="no config specified"):
        run(test, enable_admission_plugins=("ImagePolicyWebhook",))


def test_slow_webhook(webhook: StatusWebhook) -> None:
    """A webhook that does not answer holds up no other write."""

    def wait(received: Received) -> Reply:
        webhook.server.over.wait(60)
        return Reply({**received.json, "status": {"allowed": True}})

    webhook.server.respond = wait

    async def test(server: Server) -> None:
        write = asyncio.create_task(pods(server).create(pod()))
        maps = server.client(JANE).resource("v1", "configmaps", namespace="default")
        await maps.create({"metadata": {"name": "m"}})
        assert not write.done()
        webhook.server.over.set()
        assert (await write)["metadata"]["name"] == "p"

    run(test, **settings(webhook))
