"""What holds for every made-up pod, however its containers are to fare."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tests.simulation.pods import Lived, pod_of

POLICIES = ["Always", "OnFailure", "Never"]
rules = st.fixed_dictionaries(
    {
        "action": st.sampled_from(["Restart", "RestartAllContainers"]),
        "exitCodes": st.fixed_dictionaries(
            {"operator": st.sampled_from(["In", "NotIn"]), "values": st.just([1])}
        ),
    }
)
probes = st.fixed_dictionaries({}, optional={
    "initialDelaySeconds": st.integers(0, 9), "periodSeconds": st.integers(1, 5),
    "failureThreshold": st.integers(1, 3),
})  # fmt: skip


@st.composite
def containers(draw, name):
    found = {"name": name}
    for kind in draw(st.sets(st.sampled_from(["startup", "liveness", "readiness"]))):
        found[f"{kind}Probe"] = draw(probes)
    if draw(st.booleans()):
        found["restartPolicy"] = draw(st.sampled_from(POLICIES))
        found["restartPolicyRules"] = draw(st.lists(rules, max_size=2))
    return found


fates = st.fixed_dictionaries({}, optional={
    f"{key}{name}": values
    for name in ("", ".app", ".one", ".proxy")
    for key, values in {
        "exit-code": st.sampled_from(["0", "1", "3"]),
        "run-seconds": st.sampled_from(["0", "2", "30"]),
        "stop-seconds": st.sampled_from(["0", "7", "99"]),
        "live": st.just("false"),
        "started": st.just("false"),
        "ready": st.just("false"),
    }.items()
})  # fmt: skip


@st.composite
def pods(draw):
    inits = [draw(containers("one"))] * draw(st.integers(0, 1))
    sidecars = [{"name": "proxy", "restartPolicy": "Always"}] * draw(st.integers(0, 1))
    return pod_of(
        draw(containers("app")), "log", init=[*inits, *sidecars],
        annotations=draw(fates), policy=draw(st.sampled_from(POLICIES)),
    )  # fmt: skip


def restarts(status):
    groups = ("initContainerStatuses", "containerStatuses")
    return {
        each["name"]: each["restartCount"] for group in groups for each in status.get(group, ())
    }


RESTARTS_ALL = {"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [1]}}
ENDLESS = {"name": "app", "restartPolicy": "Never", "restartPolicyRules": [RESTARTS_ALL]}


@example(pod_of(ENDLESS, annotations={"run-seconds": "0"}), [10, 60], True)
@example(pod_of(init=[ENDLESS | {"name": "one"}]), [10, 60], True)
@given(pods(), st.lists(st.sampled_from([0.5, 1, 3, 10, 60]), max_size=6), st.booleans())
def test_lives(pod, pauses, is_deleted):
    """A pod comes to rest at each time, restarts are only added, a pod that has finished stays as
    it is, and one that is deleted goes within its grace period."""
    lived = Lived(pod).run()
    finished = None
    for pause in pauses:
        before = restarts(lived.pod["status"])
        lived.run(pause)
        after = restarts(lived.pod["status"])
        assert all(after[name] >= count for name, count in before.items())
        if finished is not None:
            assert lived.pod["status"] == finished
        if lived.phase in ("Succeeded", "Failed"):
            finished = lived.pod["status"]
            assert not any(text.startswith("running") for text in lived.states().values())
    if is_deleted:
        assert lived.delete(grace=30).run(30).gone
        assert not any(text.startswith("running") for text in lived.states().values())
