"""ServiceCIDRs over HTTP: they become ready, and are deleted when no address uses them."""

from __future__ import annotations

from tests.controllers.waiting import until_gone, wait_until

PATH = "/apis/networking.k8s.io/v1/servicecidrs"


def status_of(cidr):
    """The status of the Ready condition."""
    conditions = ((cidr or {}).get("status") or {}).get("conditions") or ()
    return next(
        (condition["status"] for condition in conditions if condition["type"] == "Ready"), None
    )


def test_range(api, core):
    """A new range becomes ready; its deletion waits until its last address is released."""
    body = {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.200.0.0/24"]}}
    assert api.post(PATH, body).status == 201
    ready = wait_until(api, PATH, "more", lambda obj: status_of(obj) == "True")
    assert ready["metadata"]["finalizers"] == ["networking.k8s.io/service-cidr-finalizer"]
    spec = {"ports": [{"port": 80}], "clusterIP": "10.200.0.7"}
    created = api.post(f"{core}/services", {"metadata": {"name": "s"}, "spec": spec})
    assert created.status == 201, created.body
    api.delete(f"{PATH}/more")
    terminating = wait_until(api, PATH, "more", lambda obj: status_of(obj) == "False")
    assert terminating["status"]["conditions"][0]["reason"] == "Terminating"
    api.delete(f"{core}/services/s")
    until_gone(api, PATH, "more")
