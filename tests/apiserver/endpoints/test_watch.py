"""Watches: events, initial events, bookmarks, formats and errors."""

import logging
import random

import pytest

TIMEOUT = "watch=true&timeoutSeconds=30"


def config_map(name, **labels):
    return {"metadata": {"name": name, "labels": labels}}


@pytest.fixture
def maps(core):
    return f"{core}/configmaps"


def version_of(api, path):
    return api.get(path).json["metadata"]["resourceVersion"]


def types_and_names(events):
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def test_changes(api, maps):
    """Each change is one event. A DELETED event has the last state of the object."""
    with api.watch(f"{maps}?{TIMEOUT}&resourceVersion={version_of(api, maps)}") as stream:
        assert stream.response.getheader("Content-Type") == "application/json"
        created = api.post(maps, config_map("a")).json
        api.patch(f"{maps}/a", {"data": {"k": "v"}})
        api.delete(f"{maps}/a")
        events = stream.events(3)
    assert types_and_names(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert events[0]["object"] == created
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))


def test_initial_state(api, maps):
    """A watch without a resourceVersion begins with an ADDED event for each object."""
    api.post(maps, config_map("a"))
    with api.watch(f"{maps}?{TIMEOUT}") as stream:
        assert types_and_names([stream.event()]) == [("ADDED", "a")]


def test_resume(api, maps):
    """A watch with a resourceVersion begins with the changes after it."""
    version = version_of(api, maps)
    api.post(maps, config_map("a"))
    api.post(maps, config_map("b"))
    with api.watch(f"{maps}?{TIMEOUT}&resourceVersion={version}") as stream:
        assert types_and_names(stream.events(2)) == [("ADDED", "a"), ("ADDED", "b")]


def test_changes_of_labels(api, maps):
    """An object that starts to match the selector is ADDED; one that stops is DELETED."""
    version = version_of(api, maps)
    query = f"{TIMEOUT}&resourceVersion={version}&labelSelector=on%3Dyes"
    with api.watch(f"{maps}?{query}") as stream:
        api.post(maps, config_map("a", on="no"))
        api.patch(f"{maps}/a", {"metadata": {"labels": {"on": "yes"}}})
        api.patch(f"{maps}/a", {"metadata": {"labels": {"on": "no"}}})
        assert types_and_names(stream.events(2)) == [("ADDED", "a"), ("DELETED", "a")]


def test_initial_events(api, maps):
    """With sendInitialEvents, a bookmark with an annotation follows the initial events."""
    api.post(maps, config_map("a"))
    query = f"{TIMEOUT}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    with api.watch(f"{maps}?{query}&allowWatchBookmarks=true") as stream:
        events = stream.events(2)
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    annotations = events[1]["object"]["metadata"]["annotations"]
    assert annotations == {"k8s.io/initial-events-end": "true"}


def test_one_object(api, maps):
    """The deprecated /watch/ path of a single object works."""
    api.post(maps, config_map("a"))
    api.post(maps, config_map("b"))
    old = maps.replace("/api/v1/", "/api/v1/watch/")
    with api.watch(f"{old}/b?timeoutSeconds=30") as stream:
        assert types_and_names([stream.event()]) == [("ADDED", "b")]


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "PATCH", "DELETE"])
def test_watch_paths_are_only_read(api, method):
    """A path below /watch/ has no other method than GET."""
    assert api(method, "/api/v1/watch/pods", {}).status == 405


def test_timeout(api, maps):
    """timeoutSeconds ends the stream with the last chunk."""
    with api.watch(f"{maps}?watch=1&timeoutSeconds=1") as stream:
        assert stream.event() is None


def test_bookmark_before_timeout(api, maps):
    """A watch with bookmarks that times out ends with one, so that a client whose objects did not
    change resumes at the current version."""
    version = version_of(api, maps)
    query = f"watch=1&resourceVersion={version}&allowWatchBookmarks=1"
    current = api.post(maps, config_map("a")).json["metadata"]["resourceVersion"]
    with api.watch(f"{maps}?{query}&timeoutSeconds=1&fieldSelector=metadata.name=b") as stream:
        bookmark = stream.event()
        assert bookmark["type"] == "BOOKMARK"
        assert int(bookmark["object"]["metadata"]["resourceVersion"]) >= int(current)
        assert stream.event() is None
    with api.watch(f"{maps}?watch=1&resourceVersion={version}&timeoutSeconds=1") as stream:
        assert stream.event()["type"] == "ADDED"
        assert stream.event() is None


@pytest.mark.parametrize(
    "accept",
    [
        "application/vnd.kubernetes.protobuf;stream=watch",
        "application/cbor-seq",
        "application/json;stream=watch",
    ],
)
def test_encodings(api, maps, accept):
    """Every stream encoding has its own framing."""
    from kapiserver.codecs import framing

    readers = {
        "application/json": framing.JSON_LINES,
        "application/vnd.kubernetes.protobuf;stream=watch": framing.LENGTH_PREFIXED,
        "application/cbor-seq": framing.CBOR_SEQUENCE,
    }
    api.post(maps, config_map("a"))
    with api.watch(f"{maps}?{TIMEOUT}", accept=accept) as stream:
        reader = readers[stream.response.getheader("Content-Type")].make_reader()
        bodies = []
        while not bodies:
            bodies = reader.feed(stream.response.read1(65536))
    assert b"ADDED" in bodies[0]


def test_tables(api, maps):
    """Each event has a Table with one row. Only the first has column definitions."""
    api.post(maps, config_map("a"))
    api.post(maps, config_map("b"))
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1"
    with api.watch(f"{maps}?{TIMEOUT}", accept=accept) as stream:
        first, second = stream.events(2)
    assert first["object"]["kind"] == "Table"
    assert [c["name"] for c in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["object"]["columnDefinitions"] is None
    assert first["object"]["rows"][0]["cells"][:2] == ["a", 0]
    assert second["object"]["rows"][0]["object"]["metadata"]["name"] == "b"


def test_metadata(api, maps):
    """A watch of PartialObjectMetadata contains the metadata only."""
    api.post(maps, config_map("a") | {"data": {"k": "v"}})
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    with api.watch(f"{maps}?{TIMEOUT}", accept=accept) as stream:
        partial_object = stream.event()["object"]
    assert list(partial_object) == ["kind", "apiVersion", "metadata"]
    assert partial_object["kind"] == "PartialObjectMetadata"


REFUSED = [
    ("resourceVersion=x", "", 400),
    ("labelSelector=(", "", 400),
    ("timeoutSeconds=x", "", 400),
    ("sendInitialEvents=true", "", 422),
    ("resourceVersionMatch=Exact&resourceVersion=1", "", 422),
    ("", "application/yaml", 406),
    ("", "text/html", 406),
]


@pytest.mark.parametrize(("query", "accept", "status"), REFUSED)
def test_refused(api, maps, query, accept, status):
    """Invalid options are an error before the stream starts."""
    response = api.get(f"{maps}?watch=1&{query}", accept=accept or "*/*")
    assert response.status == status, response.body
    assert b"Status" in response.body


def test_too_old(api, maps):
    """A compacted resourceVersion is a 410, as a response or as an ERROR event."""
    with api.watch(f"{maps}?{TIMEOUT}&resourceVersion=1") as stream:
        assert stream.response.status in (200, 410)


def test_drain(own_server):
    """A draining server ends its watches with the last chunk."""
    with own_server.api.watch(f"/api/v1/namespaces?{TIMEOUT}") as stream:
        assert stream.event()["type"] == "ADDED"
        own_server.begin_end()
        while stream.event() is not None:
            pass  # raises if the last chunk is missing


def test_access_log_of_watches(make_server, caplog):
    """A watch is logged when it ends, and a watch that fails to open with the error's status."""
    caplog.set_level(logging.INFO, "kapiserver.access")
    server = make_server(verbosity=1)
    path = "/api/v1/configmaps"
    assert server.api.get(f"{path}?{TIMEOUT}&resourceVersion=x").status == 400
    query = f"{TIMEOUT}&resourceVersion={version_of(server.api, path)}"
    with server.api.watch(f"{path}?{query}") as stream:
        server.api.post("/api/v1/namespaces/default/configmaps", config_map("a"))
        stream.event()
    server.end()
    entries = [record.fields for record in caplog.records if record.name == "kapiserver.access"]
    watches = [fields for fields in entries if fields["verb"] == "watch"]
    assert [fields["status"] for fields in watches] == [400, 200]
    assert watches[1]["bytes"] > 0
    assert {fields["user"] for fields in watches} == {"system:unsecured"}


def test_state_of_random(own_server):
    """Requests leave the state of `random` to the program that runs the server: hypothesis takes a
    change of it for a fault of the test that draws meanwhile."""
    state = random.getstate()
    assert own_server.api.get("/version").status == 200
    with own_server.api.watch("/api/v1/namespaces?watch=1") as stream:
        stream.event()
    assert random.getstate() == state
