"""Watch an object until a controller has done its work."""

from __future__ import annotations


def until(api, collection, name, done):
    """Follow an object until `done(object or None)`; what it was then."""
    selector = f"fieldSelector=metadata.name={name}"
    listed = api.get(f"{collection}?{selector}").json
    obj = next(iter(listed["items"]), None)
    version = listed["metadata"]["resourceVersion"]
    if done(obj):
        return obj
    path = f"{collection}?watch=1&{selector}&resourceVersion={version}&timeoutSeconds=60"
    with api.watch(path) as stream:
        while True:
            event = stream.event()
            obj = None if event["type"] == "DELETED" else event["object"]
            if done(obj):
                return obj


def until_gone(api, collection, name):
    """Follow an object until it is there no more."""
    until(api, collection, name, lambda obj: obj is None)
