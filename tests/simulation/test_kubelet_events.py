"""The events of simulated kubelets, word by word as a kubelet of 1.37 writes them."""

from __future__ import annotations

import pytest

from kapiserver.simulation.kubelet_events import KubeletEvent
from tests.simulation.pods import Lived, pod_of

APP = "spec.containers{app}"
PRESENT = 'Container image "nginx" already present on machine and can be accessed by the pod'
START = [
    ("Normal", "Pulled", PRESENT),
    ("Normal", "Created", "Container created"),
    ("Normal", "Started", "Container started"),
]
BACK_OFF = ("Warning", "BackOff", "Back-off restarting failed container app in pod web-0_shop(1)")
NOT_LIVE = [
    ("Warning", "Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 500"),
    ("Normal", "Killing", "Container app failed liveness probe, will be restarted"),
]


def probed(kind, **probe):
    return {
        "name": "app",
        f"{kind}Probe": {"failureThreshold": 1, "initialDelaySeconds": 1} | probe,
    }


def not_live(**probe):
    return pod_of(probed("liveness", **probe), annotations={"live": "false"})


CASES = {
    "a start": (pod_of(), 0, START),
    "a pull": (
        pod_of({"name": "app", "imagePullPolicy": "Always"}), 0,
        [
            ("Normal", "Pulling", 'Pulling image "nginx"'),
            ("Normal", "Pulled", 'Successfully pulled image "nginx" in 0s (0s including waiting). '
             "Image size: 50000000 bytes."),
            *START[1:],
        ],
    ),
    "an image that is missing": (
        pod_of(annotations={"image-pull-error": "not found"}), 1,
        [
            ("Normal", "Pulling", 'Pulling image "nginx"'),
            ("Warning", "Failed", 'Failed to pull image "nginx": not found'),
            ("Warning", "Failed", "Error: ErrImagePull"),
            ("Normal", "BackOff", 'Back-off pulling image "nginx"'),
            ("Warning", "Failed", "Error: ImagePullBackOff"),
        ],
    ),
    "a crash loop": (
        pod_of(annotations={"exit-code": "1"}), 2, [*START, *START, BACK_OFF],
    ),
    "a pod that ends": (
        pod_of(annotations={"exit-code": "1"}, policy="Never"), 2, START,
    ),
    "liveness over HTTP": (
        not_live(httpGet={"port": 80}), 2,
        [
            *START,
            *NOT_LIVE, *START, *NOT_LIVE, BACK_OFF,
        ],
    ),
    "readiness over TCP": (
        pod_of(probed("readiness", tcpSocket={"port": 80}), annotations={"ready": "false"}), 60,
        [
            *START,
            ("Warning", "Unhealthy",
             "Readiness probe failed: dial tcp 10.128.0.2:80: connect: connection refused"),
        ],
    ),
    "startup over gRPC": (
        pod_of(probed("startup", grpc={"port": 80}), annotations={"started": "false"},
               policy="Never"), 1,
        [
            *START,
            ("Warning", "Unhealthy",
             'Startup probe failed: service unhealthy (responded with "NOT_SERVING")'),
            ("Normal", "Killing", "Container app failed startup probe"),
        ],
    ),
    "a deadline": (
        pod_of(activeDeadlineSeconds=5), 5,
        [
            *START,
            ("Normal", "DeadlineExceeded",
             "Pod was active on the node longer than the specified deadline"),
            ("Normal", "Killing", "Stopping container app"),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_events(name):
    """After so many seconds these events have been written."""
    pod, seconds, events = CASES[name]
    assert [event[:3] for event in Lived(pod).run(seconds).events] == events


def test_parts():
    """Each event names its container."""
    pod = pod_of("app", init=("one",), ephemeralContainers=[{"name": "e", "image": "nginx"}])
    events = Lived(pod).run().events
    assert {event.field_path for event in events} == {
        APP, "spec.initContainers{one}", "spec.ephemeralContainers{e}",
    }  # fmt: skip


def test_deletion():
    lived = Lived(pod_of()).run().delete().run()
    assert lived.events[-1] == KubeletEvent("Normal", "Killing", "Stopping container app", APP)


def test_other_image():
    lived = Lived(pod_of()).run(60)
    lived.pod["spec"]["containers"][0]["image"] = "nginx:2"
    message = "Container app definition changed, will be restarted"
    assert ("Normal", "Killing", message, APP) in lived.run().events
