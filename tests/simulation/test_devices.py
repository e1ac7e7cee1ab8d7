"""Dynamic resource allocation: which devices claims get, and what keeps a pod from its nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.schedule import Placement, schedule
from kapiserver.simulation.scheduler.scheduling_error import SchedulingError
from tests.simulation.devices import (
    BIG,
    DRIVER,
    GPUS,
    NO_DEVICES,
    NOT_HELPFUL,
    SMALL,
    a_claim,
    a_class,
    a_device,
    a_slice,
    allocated,
    exactly,
    first_available,
    using,
    with_devices,
)
from tests.simulation.scheduling import a_node, a_snapshot, decide

UNAVAILABLE = "resourceclaim not available on the node"


def devices_of(claims, slices, *, node=None, classes=None, rules=(), others=()):
    """The devices that the claims of a pod get on the node `one`, by name of the request, or why
    it gets none."""
    claims = claims if isinstance(claims, list) else [claims]
    snapshot = with_devices([node or a_node("one")], slices, [*claims, *others], classes, rules)
    names = [each["metadata"]["name"] for each in claims]
    decision = schedule(PodInfo(using(*names)), snapshot)
    if not isinstance(decision, Placement):
        return decision.message
    return {
        result["request"]: [
            each["device"]
            for one in decision.claims
            for each in one.allocation["devices"]["results"]
            if each["request"] == result["request"]
        ]
        for claim in decision.claims
        for result in claim.allocation["devices"]["results"]
    }


IS_BIG = f'device.attributes["{DRIVER}"].model == "a100"'
HAS_MEMORY = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("20Gi")) >= 0'


@pytest.mark.parametrize(
    ("request_", "slices", "expected"),
    [
        (exactly(), [GPUS], {"gpu": ["big"]}),
        (exactly(count=2), [GPUS], {"gpu": ["big", "small"]}),
        (exactly(count=3), [GPUS], NO_DEVICES),
        (exactly(), [], NO_DEVICES),
        (exactly("gpu", "gpu", IS_BIG), [GPUS], {"gpu": ["big"]}),
        (exactly("gpu", "gpu", f"!({IS_BIG})"), [GPUS], {"gpu": ["small"]}),
        (exactly("gpu", "gpu", HAS_MEMORY), [GPUS], {"gpu": ["big"]}),
        (exactly("gpu", "gpu", 'device.attributes["other.io"].?model.hasValue()'), [GPUS],
         NO_DEVICES),
        (exactly(allocationMode="All"), [GPUS], {"gpu": ["big", "small"]}),
        (exactly("gpu", "gpu", IS_BIG, allocationMode="All"), [GPUS], {"gpu": ["big"]}),
        (exactly("gpu", "gpu", "false", allocationMode="All"), [GPUS], NO_DEVICES),
        (exactly(capacity={"requests": {"memory": "20Gi"}}), [a_slice("s", SMALL, BIG)],
         {"gpu": ["big"]}),
        (exactly(capacity={"requests": {"cores": "1"}}), [GPUS], NO_DEVICES),
        (exactly(), [a_slice("b", "x"), a_slice("a", "y")], {"gpu": ["y"]}),
        (exactly(), [a_slice("s", "x", nodeName="two")], NO_DEVICES),
        (exactly(), [a_slice("s", "x", allNodes=True)], {"gpu": ["x"]}),
        (first_available("gpu", exactly("two", count=2), exactly("one")), [GPUS],
         {"gpu/two": ["big", "small"]}),
        (first_available("gpu", exactly("three", count=3), exactly("one")), [GPUS],
         {"gpu/one": ["big"]}),
        (first_available("gpu", exactly("three", count=3)), [GPUS], NO_DEVICES),
    ],
)  # fmt: skip
def test_requests(request_, slices, expected):
    """A request gets the first devices that its class and its selectors select."""
    assert devices_of(a_claim("c", request_), slices) == expected


def in_zone(zone):
    expression = {"key": "zone", "operator": "In", "values": [zone]}
    return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


@pytest.mark.parametrize(
    ("slices", "selector"),
    [
        ([a_slice("s", "x")], {"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["one"]}]}),
        ([a_slice("s", "x", allNodes=True)], None),
        ([a_slice("s", "x", nodeSelector=in_zone("a"))], in_zone("a")["nodeSelectorTerms"][0]),
        ([a_slice("s", "x", nodeSelector=in_zone("b"))], "none"),
        ([a_slice("s", a_device("x", nodeName="two"), a_device("y", allNodes=True),
                  perDeviceNodeSelection=True)], None),
        ([a_slice("s", a_device("x", nodeSelector=in_zone("a")), perDeviceNodeSelection=True)],
         in_zone("a")["nodeSelectorTerms"][0]),
    ],
)  # fmt: skip
def test_nodes(slices, selector):
    """The allocation says which nodes can use the devices."""
    node = a_node("one", labels={"zone": "a"})
    snapshot = with_devices([node], slices, [a_claim("c")])
    decision = schedule(PodInfo(using("c")), snapshot)
    if selector == "none":
        assert not isinstance(decision, Placement)
        return
    (claim,) = decision.claims
    terms = claim.allocation.get("nodeSelector", {}).get("nodeSelectorTerms", [None])
    assert terms == [selector]


HALVES = {
    "sharedCounters": [{"name": "card", "counters": {"memory": {"value": "80Gi"}}}],
}


def half(name, amount="40Gi"):
    counters = {"memory": {"value": amount}}
    return a_device(name, consumesCounters=[{"counterSet": "card", "counters": counters}])


CARD = [
    a_slice("counters", pool="card", count=2, **HALVES),
    a_slice("parts", half("a"), half("b"), half("whole", "80Gi"), pool="card", count=2),
]


@pytest.mark.parametrize(
    ("count", "in_use", "expected"),
    [
        (1, (), ["a"]),
        (2, (), ["a", "b"]),
        (3, (), None),
        (1, ["a"], ["b"]),
        (2, ["a"], None),
        (1, ["whole"], None),
    ],
)
def test_partitions(count, in_use, expected):
    """Devices that draw from the same counters are allocated while there is enough left."""
    other = allocated(a_claim("other"), *(("card", each) for each in in_use))
    found = devices_of(a_claim("c", exactly(count=count)), CARD, others=[other] if in_use else ())
    assert found == ({"gpu": expected} if expected else NO_DEVICES)


SHARED = a_device("shared", allowMultipleAllocations=True, memory={"memory": "10Gi"})


@pytest.mark.parametrize(
    ("policy", "wanted", "consumed"),
    [
        (None, "4Gi", ["4Gi"]),
        (None, None, ["10Gi"]),
        (None, "11Gi", None),
        ({"default": "2Gi", "validValues": ["2Gi", "5Gi"]}, None, ["2Gi"]),
        ({"default": "2Gi", "validValues": ["2Gi", "5Gi"]}, "3Gi", ["5Gi"]),
        ({"default": "2Gi", "validValues": ["2Gi", "5Gi"]}, "6Gi", None),
        ({"default": "2Gi", "validRange": {"min": "1Gi", "step": "2Gi"}}, "2Gi", ["3Gi"]),
        ({"default": "2Gi", "validRange": {"min": "1Gi"}}, "512Mi", ["1Gi"]),
        ({"default": "2Gi", "validRange": {"min": "1Gi", "max": "4Gi"}}, "5Gi", None),
        ({"default": "500m", "validRange": {"min": "500m", "step": "250m"}}, "600m", ["750m"]),
    ],
)
def test_capacity(policy, wanted, consumed):
    """A request for a part of a shared device is rounded up as the device's policy says."""
    device = SHARED | {"capacity": {"memory": {"value": "10Gi"}}}
    if policy:
        device["capacity"]["memory"]["requestPolicy"] = policy
    fields = {"capacity": {"requests": {"memory": wanted}}} if wanted else {}
    snapshot = with_devices(
        [a_node("one")], [a_slice("s", device)], [a_claim("c", exactly(**fields))]
    )
    decision = schedule(PodInfo(using("c")), snapshot)
    if consumed is None:
        assert decision.message == NO_DEVICES
        return
    results = decision.claims[0].allocation["devices"]["results"]
    assert [each["consumedCapacity"]["memory"] for each in results] == consumed
    assert all(each["shareID"] for each in results)


def test_shares():
    """Claims share a device until its capacity is used up; a claim that ends gives its share
    back."""
    claims = [a_claim(name, exactly(capacity={"requests": {"memory": "4Gi"}})) for name in "abc"]
    snapshot = with_devices([a_node("one")], [a_slice("s", SHARED)], claims)
    for index, name in enumerate("ab"):
        (reserved,) = schedule(PodInfo(using(name)), snapshot).claims
        snapshot.inventory.set_claim(
            claims[index] | {"status": {"allocation": reserved.allocation}}
        )
    assert decide(using("c"), snapshot) == NO_DEVICES
    snapshot.inventory.remove_claim("shop", "a")
    assert decide(using("c"), snapshot) == "one"


def same(name="model", **fields):
    return {"matchAttribute": f"{DRIVER}/{name}"} | fields


def different(name="model", **fields):
    return {"distinctAttribute": f"{DRIVER}/{name}"} | fields


MODELS = a_slice(
    "s", *(a_device(f"{model}-{i}", attributes={"model": model}) for i in (0, 1) for model in "ab")
)


@pytest.mark.parametrize(
    ("count", "constraint", "expected"),
    [
        (2, same(), ["a-0", "a-1"]),
        (2, same(requests=["gpu"]), ["a-0", "a-1"]),
        (2, same(requests=["other"]), ["a-0", "b-0"]),
        (2, different(), ["a-0", "b-0"]),
        (3, same(), None),
        (3, different(), None),
        (1, same("unknown"), None),
    ],
)
def test_constraints(count, constraint, expected):
    """The devices have the same value of an attribute, or different ones; to find them, the search
    gives devices back."""
    requests = [exactly(count=count)]
    if "other" in constraint.get("requests", ()):
        requests.append(exactly("other", "gpu", 'device.attributes["x.io"].?a.hasValue() || true'))
    found = devices_of(a_claim("c", *requests, constraints=[constraint]), [MODELS])
    assert found == NO_DEVICES if expected is None else found["gpu"] == expected


TAINT = {"key": "broken", "value": "yes", "effect": "NoSchedule"}
RULE = {
    "metadata": {"name": "rule"},
    "spec": {"deviceSelector": {"driver": DRIVER, "device": "x"}, "taint": TAINT},
}


@pytest.mark.parametrize(
    ("taints", "rules", "toleration", "expected"),
    [
        ([TAINT], [], None, ["y"]),
        ([TAINT], [], {"key": "broken", "operator": "Exists"}, ["x"]),
        ([TAINT], [], {"operator": "Exists", "effect": "NoExecute"}, ["y"]),
        ([TAINT], [], {"key": "broken", "operator": "Equal", "value": "yes"}, ["x"]),
        ([TAINT], [], {"key": "broken", "operator": "Equal", "value": "no"}, ["y"]),
        ([TAINT | {"effect": "NoExecute"}], [], None, ["y"]),
        ([TAINT | {"effect": "None"}], [], None, ["x"]),
        ([], [RULE], None, ["y"]),
        ([], [RULE], {"operator": "Exists"}, ["x"]),
        ([], [RULE | {"spec": {"deviceSelector": {"pool": "p"}, "taint": TAINT}}], None, ["x"]),
    ],
)
def test_taints(taints, rules, toleration, expected):
    """A device with a taint, its own or that of a rule, is only for requests that tolerate it."""
    fields = {"tolerations": [toleration]} if toleration else {}
    slices = [a_slice("s", a_device("x", taints=taints), "y")]
    assert devices_of(a_claim("c", exactly(**fields)), slices, rules=rules) == {"gpu": expected}


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        ([a_slice("a", "x", pool="p", count=2)], NO_DEVICES),
        ([a_slice("a", "x", pool="p", count=2), a_slice("b", "y", pool="p", count=2)], ["x"]),
        ([a_slice("a", "x", pool="p"), a_slice("b", "y", pool="p", generation=2)], ["y"]),
        ([a_slice("a", "x", pool="p", count=2),
          a_slice("b", "y", pool="p", generation=2, nodeName="two")], NO_DEVICES),
        ([a_slice("a", "x", pool="p", count=2),
          a_slice("b", "y", pool="p", count=2, nodeName="two")], ["x"]),
        ([a_slice("a", "x", "x")], NO_DEVICES),
    ],
)  # fmt: skip
def test_pools(slices, expected):
    """Only complete and valid pools of the last generation have devices."""
    found = devices_of(a_claim("c"), slices)
    assert found == ({"gpu": expected} if isinstance(expected, list) else expected)


def test_administrators():
    """A request of an administrator gets a device that is in use, and leaves it free for others."""
    used = allocated(a_claim("used"), ("gpus", "big"), ("gpus", "small"))
    admin = a_claim("c", exactly(adminAccess=True))
    snapshot = with_devices([a_node("one")], [GPUS], [used, admin])
    (reserved,) = schedule(PodInfo(using("c")), snapshot).claims
    (result,) = reserved.allocation["devices"]["results"]
    assert (result["device"], result["adminAccess"]) == ("big", True)
    snapshot = with_devices([a_node("one")], [GPUS], [])
    snapshot.inventory.set_claim(admin | {"status": {"allocation": reserved.allocation}})
    snapshot.inventory.set_claim(a_claim("d"))
    assert decide(using("d"), snapshot) == "one"


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ([a_claim("c", exactly("gpu", "none"))], "request gpu: device class none does not exist"),
        ([a_claim("c", first_available("gpu", exactly("a", "gpu"), exactly("b", "none")))],
         "request gpu/b: device class none does not exist"),
        ([allocated(a_claim("c"), ("gpus", "big"), node="two")], f"1 {UNAVAILABLE}"),
        ([allocated(a_claim("c"), ("gpus", "big"), node="two", reserved=["other"])],
         f"1 {UNAVAILABLE}"),
        ([a_claim("c"), allocated(a_claim("d"), ("gpus", "big"), ("gpus", "small"))],
         "1 cannot allocate all claims"),
    ],
)  # fmt: skip
def test_messages(claims, message):
    """The message says why no node has the devices, in the words of kube-scheduler."""
    snapshot = with_devices([a_node("one")], [GPUS], claims)
    is_freed = "not available" in message and not claims[0]["status"]["reservedFor"]
    freed = "deallocation of ResourceClaim completed, " if is_freed else ""
    decision = schedule(PodInfo(using("c")), snapshot)
    assert decision.message == f"0/1 nodes are available: {message}. {freed}{NOT_HELPFUL}"
    assert bool(decision.claim_to_free) == is_freed


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("device.nothing", "CEL compile error: "),
        (f'device.attributes["{DRIVER}"].none == "a"',
         "CEL runtime error: no such key: none. consider using CEL optional chaining"),
        (f'device.attributes["{DRIVER}"].cores == "a" || 1 / 0 == 1', "CEL runtime error: "),
    ],
)  # fmt: skip
def test_expressions_that_fail(expression, message):
    """An expression that fails ends the attempt, with the place where it stands."""
    claim = a_claim("c", exactly("gpu", "gpu", expression))
    with pytest.raises(SchedulingError) as error:
        devices_of(claim, [GPUS])
    assert str(error.value).startswith('running "DynamicResources" filter plugin: claim shop/c: ')
    assert message in str(error.value)
    with pytest.raises(SchedulingError, match="class gpu: selector #0"):
        devices_of(a_claim("c"), [GPUS], classes=[a_class("gpu", expression)])


def test_the_search_is_bounded():
    """A search that would take years ends with an error."""
    devices = [a_device(f"d{i}", attributes={"a": i}) for i in range(60)]
    claim = a_claim("c", exactly(count=30), exactly("more", count=2), constraints=[same("a")])
    wide = a_claim("w", *(exactly(f"r{i}", count=4) for i in range(8)),
                   constraints=[same("b", requests=["r7"])])  # fmt: skip
    slices = [a_slice("s", *devices)]
    assert devices_of(claim, slices) == NO_DEVICES
    with pytest.raises(SchedulingError, match="timed out trying to allocate devices"):
        devices_of(wide, slices)


def test_configuration():
    """The allocation has the configuration of the class and of the claim, as far as it is for
    requests that were chosen; without requests it is for all."""
    opaque = {"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}
    claim = a_claim(
        "c",
        exactly("one"),
        first_available("two", exactly("big", "gpu", "false"), exactly("small")),
        config=[
            opaque,
            opaque | {"requests": ["two/big"]},
            opaque | {"requests": ["two"]},
            opaque | {"requests": ["one", "two/small"]},
        ],
    )
    classes = [a_class("gpu", config=[opaque])]
    snapshot = with_devices([a_node("one")], [GPUS], [claim], classes)
    (reserved,) = schedule(PodInfo(using("c")), snapshot).claims
    config = reserved.allocation["devices"]["config"]
    assert [(each["source"], each.get("requests")) for each in config] == [
        ("FromClass", None),
        ("FromClaim", None),
        ("FromClaim", ["two"]),
        ("FromClaim", None),
    ]
    assert all(each["opaque"] == opaque["opaque"] for each in config)


def test_preferred_alternatives():
    """Of two nodes the one with the preferred alternative gets the pod."""
    slices = [a_slice("s", "x", nodeName="one"), a_slice("t", "x", "y", nodeName="two")]
    claim = a_claim("c", first_available("gpu", exactly("two", count=2), exactly("one")))
    nodes = [a_node("one"), a_node("two", cpu="1")]
    assert decide(using("c"), with_devices(nodes, slices, [claim])) == "two"


def test_reserved_claims():
    """A pod whose claim is allocated goes where its devices are; a claim that is reserved for it is
    not reserved again."""
    nodes = [a_node("one"), a_node("two", cpu="1")]
    claim = allocated(a_claim("c"), ("gpus", "big"), node="two", reserved=["other"])
    decision = schedule(PodInfo(using("c")), with_devices(nodes, [GPUS], [claim]))
    assert decision.node == "two"
    assert [each.allocation for each in decision.claims] == [None]
    claim = allocated(a_claim("c"), ("gpus", "big"), node="two", reserved=["web"])
    assert schedule(PodInfo(using("c")), with_devices(nodes, [GPUS], [claim])).claims == []


requests = st.one_of(
    st.builds(lambda count: ("exact", count), st.integers(1, 4)),
    st.just(("all", 0)),
    st.builds(lambda one, two: ("first", one, two), st.integers(1, 4), st.integers(1, 4)),
)


def _request(index, choice):
    name = f"r{index}"
    if choice[0] == "exact":
        return exactly(name, count=choice[1])
    if choice[0] == "all":
        return exactly(name, allocationMode="All")
    return first_available(name, exactly("a", count=choice[1]), exactly("b", count=choice[2]))


@given(
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    pods=st.lists(st.lists(requests, min_size=1, max_size=2), max_size=8),
    ended=st.sets(st.integers(0, 7)),
)
def test_no_device_is_allocated_twice(sizes, pods, ended):
    """Whatever pods come and end, a device belongs to one claim at a time, and an exact request
    that alone fits on a free node is never refused."""
    nodes = [a_node(f"n{index}") for index in range(len(sizes))]
    slices = [
        a_slice(f"s{index}", *(f"d{i}" for i in range(size)), nodeName=f"n{index}")
        for index, size in enumerate(sizes)
    ]
    snapshot = with_devices(nodes, slices)
    in_use = {}
    for index, choices in enumerate(pods):
        claim = a_claim(f"c{index}", *(_request(i, each) for i, each in enumerate(choices)))
        snapshot.inventory.set_claim(claim)
        decision = schedule(PodInfo(using(f"c{index}", name=f"p{index}")), snapshot)
        free = [size - sum(pool == f"s{i}" for pool, _ in in_use) for i, size in enumerate(sizes)]
        if choices[0][0] == "exact" and len(choices) == 1:
            assert isinstance(decision, Placement) == (max(free) >= choices[0][1])
        if not isinstance(decision, Placement):
            continue
        (reserved,) = decision.claims
        for result in reserved.allocation["devices"]["results"]:
            device = (result["pool"], result["device"])
            assert device not in in_use
            assert result["pool"] == f"s{decision.node[1:]}"
            in_use[device] = index
        if index in ended:
            snapshot.inventory.remove_claim("shop", f"c{index}")
            in_use = {device: owner for device, owner in in_use.items() if owner != index}
        else:
            status = {"allocation": reserved.allocation}
            snapshot.inventory.set_claim(claim | {"status": status})


def test_pods_without_claims():
    """A pod without claims is not concerned."""
    assert decide(using(), a_snapshot([a_node("one")])) == "one"
