"""Wait until a controller has changed an object."""

from __future__ import annotations


def wait_until(api, collection, name, is_done):
    """Watch an object until `is_done(object or None)` is true; return the object."""
    selector = f"fieldSelector=metadata.name={name}"
    listing = api.get(f"{collection}?{selector}").json
    obj = next(iter(listing["items"]), None)
    version = listing["metadata"]["resourceVersion"]
    if is_done(obj):
        return obj
    path = f"{collection}?watch=1&{selector}&resourceVersion={version}&timeoutSeconds=60"
    with api.watch(path) as stream:
        while True:
            event = stream.event()
            obj = None if event["type"] == "DELETED" else event["object"]
            if is_done(obj):
                return obj


def until_gone(api, collection, name):
    """Watch an object until it is deleted."""
    wait_until(api, collection, name, lambda obj: obj is None)
