"""Priority and fairness of a server: which flow a request has, and what becomes of it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.flowcontrol import bootstrap
from kapiserver.apiserver.flowcontrol.bootstrap import FLOWCONTROL
from kapiserver.apiserver.flowcontrol.dumps import DUMPS
from kapiserver.apiserver.flowcontrol.flow_control import (
    LEVEL_HEADER,
    PERIOD_SECONDS,
    SCHEMA_HEADER,
)
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.serving.http1.exchange import WRITE_BYTES, parts_of
from kapiserver.apiserver.user import AUTHENTICATED, MASTERS
from kapiserver.cluster import open_cluster
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.cache.query import DeleteQuery
from kapiserver.storage.concurrency.requester import REQUESTER, Requester
from tests.apiserver.serving.crowd import (
    ALL,
    EVERYWHERE,
    JANE,
    JOE,
    group_subject,
    level_object,
    open_crowd,
    person,
    request_of,
    schema_object,
    settle,
    user_subject,
)

SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
LEVELS = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"


ACCOUNT = {"kind": "ServiceAccount", "serviceAccount": {"namespace": "ns", "name": "*"}}
PODS = {"verbs": ALL, "apiGroups": [""], "resources": ["pods"], "namespaces": ["ns"]}
EVERYBODY = group_subject(AUTHENTICATED)
URLS = {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/debug/*"]}
SCHEMA_OBJECTS = (
    schema_object(
        "masters", 100, group_subject(MASTERS), resourceRules=EVERYWHERE, nonResourceRules=URLS
    ),
    schema_object("jane-pods", 200, user_subject("jane"), resourceRules=PODS),
    schema_object("accounts", 300, ACCOUNT, resourceRules=EVERYWHERE),
    schema_object("urls", 400, user_subject("*"), nonResourceRules=URLS),
    schema_object("a-tie", 500, EVERYBODY, resourceRules=PODS),
    schema_object("b-tie", 500, EVERYBODY, resourceRules=EVERYWHERE),
    schema_object("dangling", 2, user_subject("*"), level="missing", resourceRules=EVERYWHERE),
)


CASES = [
    (person("root", MASTERS), "/api/v1/nodes", "exempt"),
    (person("jane", AUTHENTICATED), "/api/v1/namespaces/ns/pods/a", "jane-pods"),
    (person("jane", AUTHENTICATED), "/api/v1/namespaces/ns/pods/a/status", "b-tie"),
    (person("jane", AUTHENTICATED), "/api/v1/namespaces/other/pods/a", "b-tie"),
    (person("jane", AUTHENTICATED), "/api/v1/pods", "b-tie"),
    (person("joe", AUTHENTICATED), "/api/v1/namespaces/ns/pods/a", "a-tie"),
    (person("joe"), "/api/v1/namespaces/ns/pods/a", "catch-all"),
    (person("system:serviceaccount:ns:robot"), "/api/v1/nodes", "accounts"),
    (person("system:serviceaccount:other:robot"), "/api/v1/nodes", "catch-all"),
    (person("joe"), "/healthz", "urls"),
    (person("joe"), "/debug/pprof/heap", "urls"),
    (person("joe"), "/metrics", "catch-all"),
]


def test_classification() -> None:
    """The first flow schema by precedence and name that matches the request is its flow; schemas
    without a level do not count, and mandatory ones are there in any case."""

    async def run() -> list[str]:
        async with open_crowd() as crowd:
            await crowd.put("prioritylevelconfigurations", level_object())
            await crowd.put("flowschemas", *SCHEMA_OBJECTS)
            return [
                crowd.flow_control.flow_of(user, parse_request_info("GET", path, {})).schema
                for user, path, _ in CASES
            ]

    assert asyncio.run(run()) == [expected for _, _, expected in CASES]


def test_long_paths_are_not_cached() -> None:
    """Flow control keeps no path that fills memory."""

    async def run() -> int:
        async with open_crowd() as crowd:
            for length in (100, 100_000):
                info = parse_request_info("GET", "/" + "a" * length, {})
                crowd.flow_control.flow_of(person("ann"), info)
            return crowd.flow_control._cached.cache_info().currsize

    assert asyncio.run(run()) == 1


SHARED = [
    # name, shares, lendable, borrowing: nominal, lower, upper, most seats of a request
    ("a", 30, 0, None, (36, 36, 136, 6)),
    ("b", 30, 50, 100, (36, 18, 72, 6)),
    ("c", 19, 100, 0, (23, 0, 23, 4)),
]


def test_shares() -> None:
    """Seats are divided by shares; what a level lends and borrows are percents of its seats."""

    async def run() -> list[tuple[int, int, int, int]]:
        async with open_crowd(seats=100) as crowd:
            for name, shares, lendable, borrowing, _ in SHARED:
                limited = {"lendablePercent": lendable, "borrowingLimitPercent": borrowing}
                await crowd.put(
                    "prioritylevelconfigurations", level_object(name, shares, **limited)
                )
            levels = [crowd.flow_control.levels[name] for name, *_ in SHARED]
            return [(level.nominal, level.lower, level.upper, level.max_seats) for level in levels]

    # 5 shares are those of catch-all, 30 of each 84.
    assert asyncio.run(run()) == [expected for *_, expected in SHARED]


def test_borrowing() -> None:
    """A busy level borrows seats after ten seconds, and gives them back when they are missed."""

    async def run() -> list[tuple[int, int]]:
        limits: list[tuple[int, int]] = []
        async with open_crowd(seats=20) as crowd:
            busy, idle = (
                level_object(name, shares, lendablePercent=50)
                for name, shares in (("busy", 50), ("idle", 45))
            )
            await crowd.put("prioritylevelconfigurations", busy, idle)
            await crowd.put(
                "flowschemas",
                schema_object(
                    "busy", 10, user_subject("jane"), level="busy", resourceRules=EVERYWHERE
                ),
                schema_object(
                    "idle", 11, user_subject("joe"), level="idle", resourceRules=EVERYWHERE
                ),
            )

            def note() -> None:
                levels = crowd.flow_control.levels
                limits.append((levels["busy"].current, levels["idle"].current))

            requests = [request_of(JANE) for _ in range(14)]
            tasks = await crowd.begin(*requests)
            assert sum(crowd.executing(*requests)) == 10
            for _ in range(2):
                crowd.clock.advance(PERIOD_SECONDS)
            await settle()
            note()
            assert all(crowd.executing(*requests))
            others = [request_of(JOE) for _ in range(8)]
            tasks += await crowd.begin(*others)
            for request in requests:
                await crowd.end(request)
            crowd.clock.advance(PERIOD_SECONDS)
            await settle()
            note()
            for request in others:
                await crowd.end(request)
            assert {response.status for response in await asyncio.gather(*tasks)} == {200}
        return limits

    (busy, idle), (busy_later, idle_later) = asyncio.run(run())
    assert busy >= 14
    assert busy + idle <= 20
    assert idle < 8 <= idle_later
    assert busy_later + idle_later <= 20


def test_queues() -> None:
    """Requests wait for seats, and more than the queues hold get 429 with Retry-After; another user
    has queues of their own."""

    async def run() -> None:
        async with open_crowd(seats=40) as crowd:
            await crowd.put(
                "prioritylevelconfigurations", level_object(shares=0), level_object("rest", 95)
            )
            schema = schema_object("mine", 10, EVERYBODY, resourceRules=EVERYWHERE)
            await crowd.put("flowschemas", schema)
            level = crowd.flow_control.levels["level"]
            level.set_current(1, 40)
            requests = [request_of(JANE) for _ in range(6)]
            tasks = await crowd.begin(*requests)
            assert crowd.executing(*requests) == [True, *[False] * 5]
            (refused,) = [task.result() for task in tasks if task.done()]
            headers = dict(refused.headers)
            assert refused.status == 429
            assert headers["Retry-After"] == "1"
            assert (headers[LEVEL_HEADER], headers[SCHEMA_HEADER]) == (
                level.spec.uid, tasks[0] and crowd.flow_control.flow_of(JANE, requests[0].info)
                .headers[1][1],
            )  # fmt: skip
            other = request_of(JOE)
            tasks += await crowd.begin(other)
            await crowd.end(requests[0])
            assert sum(crowd.executing(*requests[1:], other)) == 1
            while crowd.ends:
                await crowd.end(next(iter(crowd.ends)))
            statuses = [response.status for response in await asyncio.gather(*tasks)]
            assert sorted(statuses) == [200] * 6 + [429]
            assert level.queue_set.is_idle

    asyncio.run(run())


def test_exempt_requests() -> None:
    """Administrators never wait, and neither do other long-running requests than watches."""

    async def run() -> None:
        async with open_crowd(seats=1) as crowd:
            root = person("root", MASTERS)
            log = "/api/v1/namespaces/n/pods/p/log"
            requests = [request_of(root) for _ in range(20)]
            requests += [request_of(person("ann"), log) for _ in range(20)]
            tasks = await crowd.begin(*requests)
            assert all(crowd.executing(*requests))
            for request in requests:
                await crowd.end(request)
            responses = await asyncio.gather(*tasks)
            assert {response.status for response in responses} == {200}

    asyncio.run(run())


def test_catch_all_rejects() -> None:
    """Requests that no schema matches share few seats, and do not wait."""

    async def run() -> None:
        async with open_crowd(seats=2) as crowd:
            requests = [request_of(person("ann")) for _ in range(3)]
            tasks = await crowd.begin(*requests)
            assert crowd.executing(*requests) == [True, True, False]
            assert tasks[2].result().status == 429
            series = crowd.flow_control.levels["catch-all"].series["catch-all"]
            assert series.rejected.values == {"concurrency-limit": 1}
            for request in requests[:2]:
                await crowd.end(request)

    asyncio.run(run())


def test_wait_limit() -> None:
    """A request that has waited for a quarter of its time gets 429; one that is cancelled leaves
    its queue."""

    async def run() -> None:
        async with open_crowd(request_timeout=0.2) as crowd:
            await crowd.put("prioritylevelconfigurations", level_object())
            schema = schema_object("mine", 10, EVERYBODY, resourceRules=EVERYWHERE)
            await crowd.put("flowschemas", schema)
            level = crowd.flow_control.levels["level"]
            level.set_current(1, 40)
            first, second, third = (request_of(JANE) for _ in range(3))
            tasks = await crowd.begin(first, second, third)
            tasks[2].cancel()
            await settle()
            assert level.queue_set.waiting == 1
            response = await tasks[1]
            assert response.status == 429
            assert level.series["mine"].rejected.values == {"time-out": 2}
            assert level.queue_set.waiting == 0
            await crowd.end(first)
            assert (await tasks[0]).status == 200
            assert level.queue_set.is_idle

    asyncio.run(run())


def test_changes_count_at_once() -> None:
    """More seats wake requests that wait, and a deleted level drains."""

    async def run() -> None:
        async with open_crowd(seats=10) as crowd:
            other = level_object("other", 95)
            await crowd.put("prioritylevelconfigurations", level_object(shares=10), other)
            schema = schema_object("mine", 10, EVERYBODY, resourceRules=EVERYWHERE)
            await crowd.put("flowschemas", schema)
            requests = [request_of(JANE) for _ in range(3)]
            tasks = await crowd.begin(*requests)
            assert sum(crowd.executing(*requests)) == 1
            store = crowd.server.stores.by_name(FLOWCONTROL, "prioritylevelconfigurations")
            await store.delete(ObjectKey("", "other"), DeleteQuery())
            await store.wait_delivered()
            await settle()
            assert all(crowd.executing(*requests))
            await store.delete(ObjectKey("", "level"), DeleteQuery())
            await store.wait_delivered()
            await settle()
            assert crowd.flow_control.levels["level"].quiescing
            assert crowd.flow_control.flow_of(JANE, requests[0].info).schema == "catch-all"
            for request in requests:
                await crowd.end(request)
            await asyncio.gather(*tasks)
            crowd.clock.advance(PERIOD_SECONDS)
            assert set(crowd.flow_control.levels) == {"catch-all", "exempt"}

    asyncio.run(run())


def test_dumps() -> None:
    """The pages show levels, queues and requests."""

    async def run() -> None:
        async with open_crowd() as crowd:
            await crowd.put("prioritylevelconfigurations", level_object())
            schema = schema_object("mine", 10, EVERYBODY, resourceRules=EVERYWHERE)
            await crowd.put("flowschemas", schema)
            crowd.flow_control.levels["level"].set_current(1, 40)
            requests = [request_of(JANE), request_of(JANE)]
            tasks = await crowd.begin(*requests)

            def rows(name: str, **query: str) -> list[list[str]]:
                parameters = {key: [value] for key, value in query.items()}
                text = DUMPS[name](crowd.flow_control, parameters, crowd.clock)
                return [re.split(r", *", line) for line in text.splitlines()]

            levels = {row[0]: row[1:] for row in rows("dump_priority_levels")}
            assert levels["level"] == ["1", "false", "false", "1", "1", "1", "0", "0", "0"]
            assert levels["catch-all"] == ["0", "true", "false", "0", "0", "0", "0", "0", "0"]
            queues = rows("dump_queues")[1:]
            assert len(queues) == 8
            waiting = [row for row in queues if row[2] == "1"]
            assert [row[3:5] + row[6:] for row in waiting] == [["0", "0", "1", "1", "0.00300000ss"]]
            header, *details = rows("dump_requests", includeRequestDetails="1")
            assert [len(row) for row in details] == [18, 18] == [len(header)] * 2
            by_index = {row[3]: row for row in details}
            assert by_index["0"][:2] + by_index["0"][4:10] == [
                "level", "mine", "jane", "1970-01-01T00:01:40Z", "1", "0", "0s",
                "0001-01-01T00:00:00Z",
            ]  # fmt: skip
            assert by_index["-1"][9:] == [
                "1970-01-01T00:01:40Z", "jane", "get", "/api/v1/nodes/a", "", "a", "v1", "nodes",
                "",
            ]  # fmt: skip
            for request in requests:
                await crowd.end(request)
            await asyncio.gather(*tasks)

    asyncio.run(run())


def test_watch_takes_seats_while_it_starts(make_server: Any) -> None:
    """A watch gives its seats back when its initial objects are sent, and counts for writes as long
    as it is open."""
    server = make_server()
    created = {"metadata": {"name": "later"}}
    with server.api.watch("/api/v1/namespaces?watch=1") as stream:
        assert server.api.post("/api/v1/namespaces", created).status == 201
        while stream.event()["object"]["metadata"]["name"] != "later":
            pass
        flow_control = server.running.cluster.server.flow_control
        write = parse_request_info("PUT", "/api/v1/namespaces/default", {})
        assert flow_control.watches.count_watches(write) == 1
        series = flow_control.levels["exempt"].series["exempt"]
        assert sum(series.watch_seconds.counts) == 1


@pytest.mark.parametrize("path", ["/api/v1/namespaces/default", "/api/v1/namespaces/none"])
def test_headers(make_server: Any, path: str) -> None:
    """Responses and errors name the flow; a change of the flow schemas counts at once."""
    api = make_server(authorization_mode=("AlwaysAllow",)).api
    level = {
        "metadata": {"name": "mine"},
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
    }
    assert api.post(LEVELS, level).status == 201
    schema = schema_object("mine", 2, user_subject("jane"), level="mine", resourceRules=EVERYWHERE)
    created = api.post(SCHEMAS, schema)
    assert created.status == 201, created.body
    response = api.get(path, headers={"Impersonate-User": "jane"})
    assert response.headers[SCHEMA_HEADER] == created.json["metadata"]["uid"]
    assert response.headers[LEVEL_HEADER] == api.get(f"{LEVELS}/mine").json["metadata"]["uid"]


def test_flow_control_off(make_server: Any) -> None:
    """Without priority and fairness there are no headers, pages and metrics of it."""
    api = make_server(enable_priority_and_fairness=False).api
    assert SCHEMA_HEADER not in api.get("/api/v1/namespaces/default").headers
    assert api.get("/debug/api_priority_and_fairness/dump_queues").status == 404
    assert b"apiserver_flowcontrol_" not in api.get("/metrics").body


def test_no_seats() -> None:
    """Limits that leave no seats are refused at the start."""

    async def run() -> None:
        config = Config.of(max_requests_inflight=0, max_mutating_requests_inflight=0)
        async with open_cluster(config):
            pass

    with pytest.raises(ValueError, match="they must add up to something positive"):
        asyncio.run(run())


def test_log_fields() -> None:
    """The access log names the level, the FlowSchema and the seats of a request."""

    async def run() -> dict[str, object]:
        name = "a" * 70
        async with open_crowd() as crowd:
            await crowd.put("prioritylevelconfigurations", level_object(name))
            await crowd.put(
                "flowschemas",
                schema_object(
                    "jane", 10, user_subject("jane"), level=name, resourceRules=EVERYWHERE
                ),
            )
            ticket = crowd.flow_control.begin(request_of(JANE))
            crowd.clock.advance(0.25)
            running = ticket.log_fields(crowd.clock.now())
            crowd.flow_control.end(ticket)
            crowd.clock.advance(1)
            assert ticket.log_fields(crowd.clock.now()) == running
            return running

    assert asyncio.run(run()) == {
        "apf_pl": "a" * 64,
        "apf_fs": "jane",
        "apf_iseats": 1,
        "apf_fseats": 0,
        "apf_additionalLatency": "0s",
        "apf_execution_time": "250ms",
    }


def test_bodies_take_turns() -> None:
    """A user who reads five large bodies delays a large body of another user by one part."""

    async def run() -> list[str]:
        log: list[str] = []

        async def write(user: str) -> None:
            REQUESTER.set(Requester(user))
            async for _part in parts_of(bytes(3 * WRITE_BYTES)):
                log.append(user)

        await asyncio.gather(*(write("many") for _ in range(5)), write("one"))
        return log

    log = asyncio.run(run())
    assert log[5:10].count("one") == 3
    assert log.count("many") == 15


def test_new_store() -> None:
    """On a new store the suggested levels and schemas decide before their objects are created."""

    async def run() -> None:
        async with open_cluster(Config.of(storage="sqlite::memory:")) as cluster:
            flow_control = cluster.server.flow_control
            assert flow_control is not None
            suggested = {level["metadata"]["name"] for level in bootstrap.SUGGESTED_LEVELS}
            assert suggested < flow_control.levels.keys()
            info = parse_request_info("GET", "/api/v1/pods", {})
            assert flow_control.flow_of(JANE, info).schema == "global-default"

    asyncio.run(run())


def test_reads_begin_before_writes_that_come_together() -> None:
    """A read does not wait for all writes that were read before it in the same round."""

    async def run() -> list[str]:
        async with open_crowd() as crowd:
            await crowd.begin(
                *(request_of(JANE, method=method) for method in ("PUT", "PUT", "GET"))
            )
            return [request.method for request in crowd.ends]

    assert asyncio.run(run()) == ["PUT", "GET", "PUT"]
