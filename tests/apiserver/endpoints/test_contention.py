"""Many writers of one object: all succeed, and webhooks may write the object that they review."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.apiserver.admission.hookkit import Hook, allow, hook_credentials, rule, running_hook
from tests.apiserver.conftest import Api, Response

WRITERS = 16
APPLY = "application/apply-patch+yaml"

credentials = pytest.fixture(scope="module")(hook_credentials)
hook = pytest.fixture(running_hook)

Write = Callable[[Api, str, int], Response]


def _put(api: Api, path: str, number: int) -> Response:
    deployment = api.get(path).json
    del deployment["metadata"]["resourceVersion"]
    deployment["spec"]["paused"] = bool(number % 2)
    return api.put(path, deployment)


def _patch(api: Api, path: str, number: int) -> Response:
    return api.patch(path, {"metadata": {"labels": {"writer": str(number)}}})


def _apply(api: Api, path: str, number: int) -> Response:
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "annotations": {"writer": str(number)}},
    }
    return api.patch(f"{path}?fieldManager=m{number}&force=true", body, type=APPLY)


def _status(api: Api, path: str, number: int) -> Response:
    return api.patch(f"{path}/status", {"status": {"observedGeneration": number}})


def _scale(api: Api, path: str, number: int) -> Response:
    body = {"metadata": {"name": "d", "namespace": path.split("/")[5]}}
    return api.put(f"{path}/scale", body | {"spec": {"replicas": number}})


@pytest.mark.parametrize("write", [_put, _patch, _apply, _status, _scale])
def test_no_writer_without_a_version_conflicts(api: Api, deployment: str, write: Write) -> None:
    """Writers that name no resourceVersion all succeed, however many write the object."""
    with ThreadPoolExecutor(WRITERS) as pool:
        responses = list(
            pool.map(lambda number: write(api, deployment, number), range(4 * WRITERS))
        )
    assert {response.status for response in responses} == {200}


@pytest.mark.parametrize("mutating", [False, True])
def test_webhook_that_updates_the_object_it_reviews(
    api: Api, core: str, namespace: str, hook: Hook, mutating: bool
) -> None:
    """A webhook's own update of the object does not wait for the write that waits for the webhook:
    that one tries again, and the webhook is asked again, as by kube-apiserver."""
    path = f"{core}/configmaps/m"
    api.post(f"{core}/configmaps", {"metadata": {"name": "m"}, "data": {"a": "1"}})
    inner: list[Response] = []

    def update_once(request: Any) -> Any:
        if not inner:
            inner.append(Response(0, None, b""))  # type: ignore[arg-type]
            inner[0] = api.patch(path, {"metadata": {"annotations": {"seen": "yes"}}})
        return allow(request)

    hook.behave = update_once
    hook.configure(api, rule("configmaps"), namespace=namespace, mutating=mutating)
    outer = api.patch(path, {"data": {"a": "2"}})
    assert (inner[0].status, outer.status) == (200, 200)
    assert outer.json["metadata"]["annotations"] == {"seen": "yes"}
    assert outer.json["data"] == {"a": "2"}
    values = [request["object"]["data"]["a"] for request in hook.requests]
    assert values == ["2", "1", "2"]
