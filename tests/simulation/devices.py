"""Device classes, slices and claims for the tests of dynamic resource allocation."""

from __future__ import annotations

from tests.simulation.scheduling import a_pod, a_snapshot

DRIVER = "gpu.example.com"
NOT_HELPFUL = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
NO_DEVICES = f"0/1 nodes are available: 1 cannot allocate all claims. {NOT_HELPFUL}"


def a_class(name="gpu", *expressions, **spec):
    selectors = [{"cel": {"expression": each}} for each in expressions]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors} | spec}


def a_device(name, **fields):
    """A device; attributes are texts, booleans or integers by name."""
    attributes = {
        key: {{str: "string", bool: "bool", int: "int"}[type(value)]: value}
        for key, value in fields.pop("attributes", {}).items()
    }
    capacity = {key: {"value": value} for key, value in fields.pop("memory", {}).items()}
    tree = {"name": name} | fields
    tree |= {"attributes": attributes} if attributes else {}
    return tree | ({"capacity": capacity} if capacity else {})


def a_slice(name, *devices, pool=None, generation=1, count=1, **spec):
    """A slice of devices, which are names or trees; of the node `one` unless something else is
    said."""
    trees = [a_device(each) if isinstance(each, str) else each for each in devices]
    where = {"nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection"}
    spec = spec if where & spec.keys() else {"nodeName": "one"} | spec
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": pool or name, "generation": generation, "resourceSliceCount": count},
            "devices": trees,
        }
        | spec,
    }


def exactly(name="gpu", class_name="gpu", *expressions, **fields):
    selectors = [{"cel": {"expression": each}} for each in expressions]
    exact = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": 1}
    return {"name": name, "exactly": exact | {"selectors": selectors} | fields}


def first_available(name, *alternatives):
    """A request with alternatives, each a tree as `exactly` returns it."""
    return {
        "name": name,
        "firstAvailable": [{"name": each["name"]} | each["exactly"] for each in alternatives],
    }


def a_claim(name, *requests, status=None, config=(), constraints=()):
    devices = {"requests": list(requests or (exactly(),))}
    devices |= {"constraints": list(constraints)} if constraints else {}
    devices |= {"config": list(config)} if config else {}
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
        },
        "spec": {"devices": devices},
        "status": status or {},
    }


def allocated(claim, *devices, node=None, reserved=()):
    """The claim, with devices for its first request, and reserved for pods."""
    request = claim["spec"]["devices"]["requests"][0]["name"]
    results = [
        {"request": request, "driver": DRIVER, "pool": pool, "device": device}
        for pool, device in devices
    ]
    allocation = {"devices": {"results": results}}
    if node:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    consumers = [{"resource": "pods", "name": each, "uid": f"shop/{each}"} for each in reserved]
    return claim | {"status": {"allocation": allocation, "reservedFor": consumers}}


def using(*claims, name="web", **fields):
    """A pod that uses claims."""
    references = [{"name": each, "resourceClaimName": each} for each in claims]
    return a_pod(name, resourceClaims=references, **fields)


def with_devices(nodes, slices=(), claims=(), classes=None, rules=(), pods=()):
    """A snapshot with the objects of dynamic resource allocation."""
    snapshot = a_snapshot(nodes, pods)
    inventory = snapshot.inventory
    for each in classes if classes is not None else [a_class()]:
        inventory.classes[each["metadata"]["name"]] = each
    for each in rules:
        inventory.taint_rules[each["metadata"]["name"]] = each
    for each in slices:
        inventory.slices.set(each)
    for each in claims:
        inventory.set_claim(each)
    return snapshot


BIG = a_device("big", attributes={"model": "a100", "cores": 8}, memory={"memory": "80Gi"})
SMALL = a_device("small", attributes={"model": "t4", "cores": 2}, memory={"memory": "16Gi"})
GPUS = a_slice("gpus", BIG, SMALL)
