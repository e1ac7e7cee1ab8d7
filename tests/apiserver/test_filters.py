"""The request filters around a handler of the test."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.authentication.token_file import TokenFileAuthenticator
from kapiserver.apiserver.authentication.union import UnionAuthenticator
from kapiserver.apiserver.authorization.union import UnionAuthorizer
from kapiserver.apiserver.authorizer import Decision, Rules, Verdict
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.filters import FILTERS, slow_requests
from kapiserver.apiserver.metrics import Metrics
from kapiserver.apiserver.request import Outcome, Request, parse_query
from kapiserver.apiserver.request_info import RequestInfo, parse_request_info
from kapiserver.apiserver.response import AnyResponse, Response, text_response
from kapiserver.apiserver.user import MASTERS, User
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.spans import Span
from kapiserver.storage.concurrency.clock import SystemClock

Inner = Callable[[Request], Awaitable[AnyResponse]]


async def _no_body(limit: int) -> bytes:
    return b""


def _request(target: str = "/api/v1/pods", method: str = "GET", **more) -> Request:
    path, _, text_ = target.partition("?")
    query = parse_query(text_)
    return Request(
        method=method,
        path=path,
        query=query,
        headers=more.pop("headers", {}),
        info=parse_request_info(method, path, query),
        read_body=_no_body,
        **more,
    )


class _Always:
    """An authorizer that always returns the same verdict."""

    def __init__(self, verdict: Verdict, reason: str = "") -> None:
        self.decision = Decision(verdict=verdict, reason=reason)

    async def authorize(self, user: User, info: RequestInfo) -> Decision:
        return self.decision

    async def rules_for(self, user: User, namespace: str) -> Rules:
        return Rules(paths=[{"verbs": [self.decision.verdict.value]}], error=self.decision.reason)


def _chain(inner: Inner, config: Config | None = None, **parts) -> Handler:
    scheme = Scheme()
    server = Server(
        config=config or Config(),
        scheme=scheme,
        codecs=CodecFactory(scheme),
        stores=None,
        offloader=None,
        clock=SystemClock(),
        custom_resources=None,
        new_client=None,
        upstreams=None,
        api_services=None,
        back_ends=None,
        plugin_chain=None,
        **{
            "authenticator": UnionAuthenticator(),
            "authorizer": _Always(Verdict.ALLOW),
            **parts,
        },
    )
    handle = inner
    for filter_ in reversed(FILTERS):
        handle = filter_(server, handle)
    return handle


def _ask(inner: Inner, request: Request | None = None, **parts) -> Response:
    request = request or _request()

    async def once() -> AnyResponse:
        response = await _chain(inner, **parts)(request)
        bytes_sent = len(response.body) if isinstance(response, Response) else 0
        request.complete(Outcome(status=response.status, bytes_sent=bytes_sent, finished=True))
        return response

    result = asyncio.run(once())
    assert isinstance(result, Response)
    return result


def _json(response: Response) -> dict:
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


async def _fine(request: Request) -> AnyResponse:
    return text_response(request.user.name)


def test_panic(caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected exception is a 500 without details; the log has the traceback."""

    async def broken(request: Request) -> AnyResponse:
        raise KeyError("the secret")

    response = _ask(broken)
    assert response.status == 500
    status = _json(response)
    assert status["reason"] == "InternalError"
    assert b"secret" not in response.body
    (record,) = [item for item in caplog.records if item.levelno >= logging.ERROR]
    assert record.exc_info is not None
    audit_id = dict(response.headers)["Audit-Id"]
    assert audit_id in record.getMessage()


def test_expected_errors() -> None:
    """A mapped exception becomes its Status, in an encoding that the client accepts."""

    async def bad(request: Request) -> AnyResponse:
        raise BadRequest("no <good>")

    response = _ask(bad)
    assert (response.status, response.media_type) == (400, "application/json")
    assert _json(response)["message"] == "no <good>"
    response = _ask(bad, _request(headers={"Accept": "application/yaml"}))
    assert (response.status, response.media_type) == (400, "application/yaml")
    response = _ask(bad, _request(headers={"Accept": "image/png"}))
    assert (response.status, response.media_type) == (400, "application/json")


def test_headers() -> None:
    """Every response has an Audit-Id, forbids caching and carries the warnings."""

    async def warned(request: Request) -> AnyResponse:
        request.warnings.add('say "hello"')
        request.warnings.add('say "hello"')
        return text_response("")

    response = _ask(warned)
    headers = dict(response.headers)
    assert headers["Cache-Control"] == "no-cache, private"
    assert len(headers["Audit-Id"]) == 36
    warnings = [value for name, value in response.headers if name == "Warning"]
    assert warnings == ['299 - "say \\"hello\\""']


@pytest.mark.parametrize(
    ("requested", "accepted"), [("mine", True), ("x" * 65, False), ("a\nb", False)]
)
def test_audit_ids(requested: str, accepted: bool) -> None:
    """A client may choose the Audit-Id if it is short and printable."""
    response = _ask(_fine, _request(headers={"Audit-Id": requested}))
    audit_id = dict(response.headers)["Audit-Id"]
    assert (audit_id == requested) == accepted
    assert len(audit_id) <= 64
    assert audit_id.isprintable()


def test_authenticated_user() -> None:
    """The handler sees the authenticated user; an invalid token is a 401."""
    token_file = TokenFileAuthenticator({"good": User(name="ann")}, ())
    parts = {"authenticator": UnionAuthenticator([token_file])}
    good = _ask(_fine, _request(headers={"Authorization": "Bearer good"}), **parts)
    assert good.body == b"ann"
    bad = _ask(_fine, _request(headers={"Authorization": "Bearer bad"}), **parts)
    assert bad.status == 401
    assert _json(bad)["message"] == "Unauthorized"


def test_authentication_metrics() -> None:
    """Attempts are timed by result, and authenticated requests counted by user."""
    users = ("kubelet", "ann@example.com", "ann")
    token_file = TokenFileAuthenticator({name: User(name=name) for name in users}, ())
    authenticator = UnionAuthenticator([token_file], anonymous=None)
    metrics = Metrics()
    for token in (*users, "bad", ""):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        _ask(_fine, _request(headers=headers), authenticator=authenticator, metrics=metrics)
    counts = {
        result: sum(observations.counts)
        for result, observations in metrics.authentication_seconds.values.items()
    }
    assert counts == {"success": 3, "error": 1, "failure": 1}
    assert metrics.user_requests.values == {"kubelet": 1, "email_id": 1, "other": 1}


def test_sli_duration() -> None:
    """The SLI duration of a request excludes the time in admission webhooks; time in
    which two webhooks are called counts once."""

    async def slow(request: Request) -> AnyResponse:
        request.trace.start -= 100
        request.trace.spans += [
            Span("mutating-webhook", 0, 80),
            Span("validating-webhook", 80, 90),
            Span("validating-webhook", 80, 85),
            Span("etcd", 90, 95),
        ]
        return text_response("")

    metrics = Metrics()
    _ask(slow, _request("/x", "POST"), metrics=metrics)
    (series,) = metrics.requests.of("", "").series.values()
    assert series.seconds.total == pytest.approx(100, abs=5)
    assert series.shared.sli_seconds.total == pytest.approx(10, abs=5)


def test_refused() -> None:
    """A request that the authorizer denies is a 403 with kube-apiserver's message."""
    authorizer = _Always(Verdict.NO_OPINION)
    request = _request("/apis/apps/v1/namespaces/n/deployments/d")
    response = _ask(_fine, request, authorizer=authorizer)
    status = _json(response)
    assert status["code"] == 403
    assert status["message"] == (
        'deployments.apps "d" is forbidden: User "system:anonymous" cannot get resource '
        '"deployments" in API group "apps" in the namespace "n"'
    )
    assert status["details"] == {"name": "d", "group": "apps", "kind": "deployments"}


def test_max_requests_in_flight() -> None:
    """Requests above the limit in flight get 429; watches and system:masters are exempt."""
    go_on = asyncio.Event

    async def crowd() -> list[int]:
        free = go_on()

        async def slow(request: Request) -> AnyResponse:
            await free.wait()
            return text_response("")

        config = Config.of(max_requests_inflight=2, max_mutating_requests_inflight=1)
        handle = _chain(slow, config)
        masters = replace(_request(), user=User(name="root", groups=(MASTERS,)))
        requests = [
            _request(), _request(), _request(method="POST"),
            _request("/api/v1/pods?watch=1"), masters,
        ]  # fmt: skip
        tasks = [asyncio.ensure_future(handle(request_)) for request_ in requests]
        await asyncio.sleep(0)
        rejected = [await handle(_request()), await handle(_request(method="POST"))]
        assert dict(rejected[0].headers)["Retry-After"] == "1"
        free.set()
        responses = await asyncio.gather(*tasks, handle(_request()))
        return [response.status for response in (*rejected, *responses)]

    assert asyncio.run(crowd()) == [429, 429, 200, 200, 200, 200, 200, 200]


def test_request_timeout() -> None:
    """A request that exceeds the request timeout, or its own shorter timeout, is a 504."""

    async def endless(request: Request) -> AnyResponse:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    for target, limit in (("/api/v1/pods?timeout=1ms", 60.0), ("/api/v1/pods", 0.001)):
        response = _ask(endless, _request(target), config=Config.of(request_timeout=limit))
        assert response.status == 504
        assert _json(response)["reason"] == "Timeout"


def test_bad_timeout() -> None:
    """An invalid timeout is a 400."""
    response = _ask(_fine, _request("/api/v1/pods?timeout=soon"))
    assert response.status == 400
    assert _json(response)["message"].startswith("invalid timeout specified in the request URL")


def test_access_log(caplog: pytest.LogCaptureFixture) -> None:
    """Requests are logged only if the access log is enabled."""
    caplog.set_level(logging.INFO, "kapiserver.access")

    def entries() -> list[Any]:
        return [record for record in caplog.records if record.name == "kapiserver.access"]

    _ask(_fine)
    assert not entries()
    _ask(_fine, config=Config.of(verbosity=1))
    (record,) = entries()
    assert record.fields["path"] == "/api/v1/pods"
    assert record.fields["status"] == 200
    assert record.fields["user"] == "system:anonymous"
    assert record.fields["bytes"] == len("system:anonymous")


def test_completion_callbacks(caplog: pytest.LogCaptureFixture) -> None:
    """Callbacks run once, in reverse order; a failing callback is logged and stops no other."""
    calls = []
    request = _request()
    request.on_complete(lambda request: calls.append(request.outcome))
    request.on_complete(lambda request: calls.append(1 / 0))
    request.on_complete(lambda request: calls.append("first"))
    outcome = Outcome(status=200, bytes_sent=5, finished=False)
    request.complete(outcome)
    request.complete(outcome)
    assert calls == ["first", outcome]
    assert "completion callback" in caplog.text


def test_spans() -> None:
    """Filters and handlers open spans."""
    request = _request()
    _ask(_fine, request)
    assert {"authentication", "authorization"} <= request.trace.seconds_by_name().keys()
    assert request.decision is not None


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ((), Verdict.NO_OPINION),
        ((Verdict.NO_OPINION, Verdict.ALLOW), Verdict.ALLOW),
        ((Verdict.NO_OPINION, Verdict.NO_OPINION), Verdict.NO_OPINION),
        ((Verdict.DENY, Verdict.ALLOW), Verdict.DENY),
        ((Verdict.ALLOW, Verdict.DENY), Verdict.ALLOW),
    ],
)
def test_union_of_authorizers(verdicts: tuple[Verdict, ...], expected: Verdict) -> None:
    """The first authorizer with an opinion decides; rules and reasons are collected from all."""
    union = UnionAuthorizer([_Always(verdict, str(n)) for n, verdict in enumerate(verdicts)])
    user, info = User(name="jane"), _request().info
    decision = asyncio.run(union.authorize(user, info))
    assert decision.verdict is expected
    if verdicts and expected is Verdict.NO_OPINION:
        assert decision.reason == "0\n1"
    rules = asyncio.run(union.rules_for(user, "default"))
    assert [rule["verbs"] for rule in rules.paths] == [[verdict.value] for verdict in verdicts]
    assert rules.error == ("[0, 1]" if verdicts else "")


def test_slow_requests(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow request is logged with the time of its spans; others are not, nor are watches."""

    def entries() -> list[Any]:
        return [record for record in caplog.records if record.name == slow_requests.__name__]

    monkeypatch.setattr(slow_requests, "THRESHOLD_SECONDS", 3600.0)
    _ask(_fine)
    monkeypatch.setattr(slow_requests, "THRESHOLD_SECONDS", 0.0)
    _ask(_fine, _request("/api/v1/pods?watch=1"))
    assert not entries()

    async def store(request: Request) -> AnyResponse:
        request.trace.spans.append(Span("etcd", 0.0, 0.25))
        return text_response("stored")

    _ask(store, _request("/api/v1/namespaces/default/pods", "POST"))
    (record,) = entries()
    assert record.getMessage() == "slow request"
    assert record.fields["etcd-ms"] == "250.0"
    assert {"verb", "status", "user", "audit-id", "authorization-ms"} <= record.fields.keys()
