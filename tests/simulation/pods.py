"""Pods whose simulated lives a test follows step by step, without a server."""

from __future__ import annotations

from kapiserver.simulation.annotations import PREFIX
from kapiserver.simulation.kubelet_events import events_between
from kapiserver.simulation.pod_life import Host, next_step
from tests.times import text_of

START = 1_700_000_000
HOST = Host(["10.128.0.2"], ["172.18.0.2"])


def pod_of(*containers, init=(), annotations=None, owner="", policy="Always", **spec):
    """A bound pod; a container is its name or its fields."""
    metadata = {
        "name": "web-0",
        "namespace": "shop",
        "uid": "1",
        "generation": 1,
        "annotations": {f"{PREFIX}{name}": text for name, text in (annotations or {}).items()},
    }
    if owner:
        metadata["ownerReferences"] = [{"kind": owner, "name": "it", "controller": True}]
    spec |= {
        "nodeName": "one",
        "restartPolicy": policy,
        "terminationGracePeriodSeconds": 30,
        "containers": [container(each) for each in containers or ("app",)],
        "initContainers": [container(each) for each in init],
    }
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def container(fields):
    return {"image": "nginx"} | ({"name": fields} if isinstance(fields, str) else fields)


class Lived:
    """A pod and its time. `run` lets time pass; each status is one write of the kubelet."""

    def __init__(self, pod, now=START, host=HOST):
        self.pod, self.now, self.host = pod, float(now), host
        self.events, self.written = [], []
        self.gone = False

    def settle(self):
        """Take all steps that are due, and return the seconds until the next one."""
        for _ in range(20):
            step = next_step(self.pod, self.host, self.now)
            self.gone = self.gone or step.gone
            if step.status is not None:
                self.events += events_between(self.pod, step.status, self.host)
                self.written.append(step.status)
                self.pod = self.pod | {"status": step.status}
            elif step.gone or step.wait is None or step.wait > 0:
                return step.wait
        raise AssertionError("the pod does not come to rest")

    def run(self, seconds=0.0):
        """Let time pass, and take each step when it is due."""
        end = self.now + seconds
        while (wait := self.settle()) is not None and self.now + wait <= end:
            self.now += wait
        self.now = end
        return self

    def delete(self, grace=30):
        metadata = self.pod["metadata"] | {
            "deletionTimestamp": text_of(self.now + grace),
            "deletionGracePeriodSeconds": grace,
        }
        self.pod = self.pod | {"metadata": metadata}
        return self

    def annotate(self, name, text):
        annotations = self.pod["metadata"]["annotations"] | {f"{PREFIX}{name}": text}
        self.pod = self.pod | {"metadata": self.pod["metadata"] | {"annotations": annotations}}
        return self

    @property
    def phase(self):
        return self.pod["status"]["phase"]

    def states(self):
        """Each container with its state, restarts and readiness in one text."""
        status = self.pod["status"]
        found = {}
        for each in (
            *status.get("initContainerStatuses", ()),
            *status["containerStatuses"],
            *status.get("ephemeralContainerStatuses", ()),
        ):
            ((state, details),) = each["state"].items()
            reason = details.get("reason") or ""
            code = details.get("exitCode")
            words = [state, reason, "" if code is None else str(code)]
            words += [f"restarts={each['restartCount']}" if each["restartCount"] else ""]
            words += ["ready" if each["ready"] else ""]
            found[each["name"]] = " ".join(filter(None, words))
        return found

    def condition(self, name):
        for each in self.pod["status"]["conditions"]:
            if each["type"] == name:
                return (each["status"], each.get("reason", ""), each.get("message", ""))
        return None
