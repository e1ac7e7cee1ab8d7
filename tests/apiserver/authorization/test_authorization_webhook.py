"""Authorization by webhooks, which are real HTTPS servers, and the files that configure them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.authorization.modes import STOP_SECONDS, Authorization
from kapiserver.apiserver.authorization.webhook import MAX_CACHED, MAX_CACHED_BYTES
from kapiserver.apiserver.authorizer import Decision, Verdict
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.user import User
from kapiserver.cluster import open_cluster
from kapiserver.parts import Parts
from tests.apiserver.conftest import Server
from tests.apiserver.metrics.scrapes import scrape, value_of
from tests.apiserver.proxy.https_server import StatusWebhook
from tests.clock import ManualClock

JANE = User(name="jane", uid="7", groups=("dev",), extra={"k": ("v",)})
PODS = "/api/v1/namespaces/x/pods"


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[StatusWebhook]:
    """A webhook that allows everything."""
    webhook = StatusWebhook(tmp_path / "webhook", {"allowed": True})
    yield webhook
    webhook.server.end()


def webhook_settings(webhook: StatusWebhook, **more: Any) -> dict[str, Any]:
    return {
        "timeout": "3s",
        "subjectAccessReviewVersion": "v1",
        "failurePolicy": "NoOpinion",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": str(webhook.file)},
        **more,
    }


def with_conditions(webhook: StatusWebhook, *expressions: str, **more: Any) -> dict[str, Any]:
    return webhook_settings(
        webhook,
        matchConditionSubjectAccessReviewVersion="v1",
        matchConditions=[{"expression": each} for each in expressions],
        **more,
    )


def write_configuration(file: Path, *authorizers: Any, version: str = "v1") -> None:
    """Write an AuthorizationConfiguration; a text stands for a mode without settings, anything else
    for the settings of a webhook."""
    file.write_text(
        json.dumps(
            {
                "apiVersion": f"apiserver.config.k8s.io/{version}",
                "kind": "AuthorizationConfiguration",
                "authorizers": [
                    {"type": each, "name": each.lower()}
                    if isinstance(each, str)
                    else {"type": "Webhook", "name": f"hook-{index}", "webhook": each}
                    for index, each in enumerate(authorizers)
                ],
            }
        )
    )


Ask = Callable[..., Awaitable[Decision]]


def run(
    test: Callable[[Ask, ManualClock, Authorization], Awaitable[None]], **settings: Any
) -> None:
    """Run a test with the authorizers of a server that serves nothing."""

    async def build_and_test() -> None:
        clock = ManualClock()
        async with open_cluster(Config.of(**settings), Parts(clock=clock)) as cluster:
            authorizer = cluster.server.authorizer
            assert isinstance(authorizer, Authorization)
            await authorizer.start()

            async def ask(
                path: str = PODS, user: User = JANE, method: str = "GET", **query: str
            ) -> Decision:
                info = parse_request_info(
                    method, path, {name: [each] for name, each in query.items()}
                )
                return await authorizer.authorize(user, info)

            try:
                await test(ask, clock, authorizer)
            finally:
                await authorizer.stop()

    asyncio.run(build_and_test())


def test_review(webhook: StatusWebhook) -> None:
    """With the flags, the webhook gets what a request asks for, in v1beta1."""

    async def test(ask: Ask, _clock: ManualClock, _authorizer: Authorization) -> None:
        assert (await ask(f"{PODS}/p/log")).allowed
        assert (await ask("/metrics")).allowed
        assert (
            await ask(fieldSelector="spec.nodeName=n,a!=b", labelSelector="a in (b),!c")
        ).allowed
        assert (await ask(fieldSelector="nothing", labelSelector="a=(")).allowed
        person = {"user": "jane", "uid": "7", "group": ["dev"], "extra": {"k": ["v"]}}
        attributes = {"verb": "list", "namespace": "x", "version": "v1", "resource": "pods"}
        log = {**attributes, "verb": "get", "name": "p", "subresource": "log"}
        fields = [
            {"key": "a", "operator": "NotIn", "values": ["b"]},
            {"key": "spec.nodeName", "operator": "In", "values": ["n"]},
        ]
        labels = [
            {"key": "a", "operator": "In", "values": ["b"]},
            {"key": "c", "operator": "DoesNotExist"},
        ]
        selected = {
            **attributes,
            "fieldSelector": {"requirements": fields},
            "labelSelector": {"requirements": labels},
        }
        assert webhook.specs == [
            {**person, "resourceAttributes": log},
            {**person, "nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
            {**person, "resourceAttributes": selected},
            {**person, "resourceAttributes": attributes},
        ]
        assert webhook.server.received[0].json["apiVersion"] == "authorization.k8s.io/v1beta1"

    run(test, authorization_mode=("Webhook",), authorization_webhook_config_file=webhook.file)


DECISIONS = [
    ({"allowed": True, "reason": "r"}, Verdict.ALLOW, "r", ""),
    ({"allowed": False, "reason": "r"}, Verdict.NO_OPINION, "r", ""),
    ({"allowed": False, "denied": True, "reason": "r"}, Verdict.DENY, "r", ""),
    ({"allowed": True, "denied": True}, Verdict.DENY, "",
     "webhook subject access review returned both allow and deny response"),
    (None, Verdict.NO_OPINION, "", ""),
]  # fmt: skip


@pytest.mark.parametrize(("status", "verdict", "reason", "error"), DECISIONS)
def test_decisions(
    webhook: StatusWebhook, tmp_path: Path, status: Any, verdict: Verdict, reason: str, error: str
) -> None:
    """The status of the review is the decision."""
    webhook.status = status
    write_configuration(tmp_path / "config", webhook_settings(webhook))

    async def test(ask: Ask, _clock: ManualClock, _authorizer: Authorization) -> None:
        assert await ask() == Decision(verdict=verdict, reason=reason, error=error)

    run(test, authorization_config=tmp_path / "config")


@pytest.mark.parametrize("policy", ["NoOpinion", "Deny"])
@pytest.mark.parametrize("parts", [{"kind": "Other"}, {"apiVersion": "x/v1"}, None])
def test_failures(webhook: StatusWebhook, tmp_path: Path, policy: str, parts: Any) -> None:
    """A webhook that fails, or answers something else, decides by its failure policy."""
    webhook.parts, webhook.code = parts or {}, 200 if parts else 403
    write_configuration(tmp_path / "config", webhook_settings(webhook, failurePolicy=policy))

    async def test(ask: Ask, _clock: ManualClock, _authorizer: Authorization) -> None:
        decision = await ask()
        expected = Verdict.DENY if policy == "Deny" else Verdict.NO_OPINION
        assert decision.verdict is expected
        assert decision.error
        webhook.parts, webhook.code = {}, 200  # a failure is not kept
        assert (await ask()).allowed

    run(test, authorization_config=tmp_path / "config")


@pytest.mark.parametrize("policy", ["NoOpinion", "Deny"])
def test_failure_is_reported(
    webhook: StatusWebhook, make_server: Callable[..., Server], policy: str
) -> None:
    """A request that no authorizer allows, because one failed, is a 500 that says why, as in
    kube-apiserver. An access review says it, too."""
    webhook.code = 403
    file = webhook.file.parent / "config"
    write_configuration(file, webhook_settings(webhook, failurePolicy=policy))
    server = make_server(authorization_config=file)
    spec = {"user": "jane", "nonResourceAttributes": {"path": "/x", "verb": "get"}}
    review = server.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    denied = {"denied": True} if policy == "Deny" else {}
    status = {"allowed": False, **denied, "evaluationError": "unknown"}
    assert review.json["status"] == status
    refusal = server.api.get("/api/v1/pods?a=<b>", headers={"Impersonate-User": "jane"})
    assert refusal.status == 500
    assert refusal.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert refusal.headers["X-Content-Type-Options"] == "nosniff"
    text = b'Internal Server Error: "/api/v1/pods?a=&lt;b&gt;": unknown\n'
    assert refusal.body == text
    samples = scrape(server.api)
    name = "apiserver_authorization_webhook_duration_seconds_count"
    assert value_of(samples, name, name="hook-0", result="error") >= 2
    failed_open = "apiserver_authorization_webhook_evaluations_fail_open_total"
    assert bool(value_of(samples, failed_open, result="error")) is (policy == "NoOpinion")
    assert value_of(samples, "authorization_attempts_total", result="error") >= 1
    assert value_of(samples, "rest_client_requests_total", code="403", method="POST") >= 2


def test_cache(webhook: StatusWebhook, tmp_path: Path) -> None:
    """Decisions are kept for their time; those of long requests are not."""
    short = webhook_settings(webhook, authorizedTTL="10s", unauthorizedTTL="5s")
    write_configuration(tmp_path / "config", short)

    async def test(ask: Ask, clock: ManualClock, _authorizer: Authorization) -> None:
        async def count_after(seconds: float, **options: Any) -> int:
            clock.advance(seconds)
            await ask(**options)
            return len(webhook.specs)

        assert [await count_after(each) for each in (0, 9, 2)] == [1, 1, 2]
        webhook.status = {"allowed": False}
        assert [await count_after(each) for each in (11, 4, 2)] == [3, 3, 4]
        assert await count_after(0, user=User(name="kim")) == 5
        assert await count_after(0, method="DELETE") == 6
        long = f"/{'x' * MAX_CACHED_BYTES}"
        assert [await count_after(0, path=long) for _ in range(2)] == [7, 8]

    run(test, authorization_config=tmp_path / "config")
    assert MAX_CACHED == 8192


def test_no_cache(webhook: StatusWebhook, tmp_path: Path) -> None:
    """`cacheAuthorizedRequests: false` asks the webhook each time."""
    settings = webhook_settings(
        webhook, cacheAuthorizedRequests=False, cacheUnauthorizedRequests=False
    )
    write_configuration(tmp_path / "config", settings)

    async def test(ask: Ask, _clock: ManualClock, _authorizer: Authorization) -> None:
        for status in ({"allowed": True}, {"allowed": False}):
            webhook.status = status
            await ask()
            await ask()
        assert len(webhook.specs) == 4

    run(test, authorization_config=tmp_path / "config")


MATCHES = [
    (["true"], True),
    (["request.user == 'jane'", "request.groups == ['dev']"], True),
    (["request.user == 'jane'", "'admin' in request.groups"], False),
    (["has(request.resourceAttributes)", "request.resourceAttributes.verb == 'list'"], True),
    (["has(request.nonResourceAttributes)"], False),
    (["request.resourceAttributes.name == ''"], True),
    (["request.extra['k'] == ['v']", "request.uid == '7'"], True),
    (["request.extra['none'] == ['v']", "false"], False),
    (["request.resourceAttributes.namespace in ['x', 'y']"], True),
    (["request.resourceAttributes.labelSelector.requirements.exists(r, r.key == 'a')"], True),
]


@pytest.mark.parametrize(("expressions", "is_called"), MATCHES)
def test_match_conditions(
    webhook: StatusWebhook, tmp_path: Path, expressions: list[str], is_called: bool
) -> None:
    """The webhook is asked if all expressions are true of the request."""
    write_configuration(tmp_path / "config", with_conditions(webhook, *expressions))

    async def test(ask: Ask, _clock: ManualClock, _authorizer: Authorization) -> None:
        decision = await ask(labelSelector="a=b")
        assert decision == Decision(verdict=Verdict.ALLOW if is_called else Verdict.NO_OPINION)
        assert len(webhook.specs) == is_called

    run(test, authorization_config=tmp_path / "config")


@pytest.mark.parametrize("policy", ["NoOpinion", "Deny"])
def test_condition_fails(webhook: StatusWebhook, tmp_path: Path, policy: str) -> None:
    """An expression that fails, while none is false, decides by the failure policy."""
    failing = with_conditions(webhook, "request.extra['none'] == ['v']", failurePolicy=policy)
    write_configuration(tmp_path / "config", failing)

    async def test(ask: Ask, _clock: ManualClock, _authorizer: Authorization) -> None:
        decision = await ask()
        expected = Verdict.DENY if policy == "Deny" else Verdict.NO_OPINION
        assert decision.verdict is expected
        assert decision.error == (
            "expression 'request.extra['none'] == ['v']' resulted in error: no such key: none"
        )
        assert not webhook.specs

    run(test, authorization_config=tmp_path / "config")


def test_order(webhook: StatusWebhook, tmp_path: Path) -> None:
    """Authorizers are asked in the order of the file; the first opinion counts."""
    webhook.status = {"allowed": False, "denied": True, "reason": "closed"}
    denies = with_conditions(webhook, "request.user == 'jane'")
    write_configuration(tmp_path / "config", denies, "AlwaysAllow", version="v1beta1")

    async def test(ask: Ask, _clock: ManualClock, authorizer: Authorization) -> None:
        assert await ask() == Decision(verdict=Verdict.DENY, reason="closed")
        assert (await ask(user=User(name="kim"))).allowed
        assert (await ask(user=User(name="root", groups=("system:masters",)))).allowed
        rules = await authorizer.rules_for(JANE, "x")
        assert (rules.incomplete, rules.error) == (
            True, "webhook authorizer does not support user rule resolution",
        )  # fmt: skip
        assert len(rules.resources) == 1

    run(test, authorization_config=tmp_path / "config")


def test_reload(webhook: StatusWebhook, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A changed file is used. One that is invalid, or adds or removes RBAC, is logged and changes
    nothing."""
    file = tmp_path / "config"
    write_configuration(file, "RBAC", "AlwaysDeny")

    async def test(ask: Ask, _clock: ManualClock, authorizer: Authorization) -> None:
        async def allowed() -> bool:
            authorizer.reload()
            return (await ask()).allowed

        assert not await allowed()
        write_configuration(file, webhook_settings(webhook), "RBAC")
        assert await allowed()
        write_configuration(file, "AlwaysDeny")
        assert await allowed()
        assert "the authorizer RBAC cannot be added or removed" in caplog.text
        file.write_text("{}")
        assert await allowed()
        assert caplog.text.count("the changed authorization configuration is not used") >= 2
        write_configuration(file, "RBAC")
        assert not await allowed()

    run(test, authorization_config=file)


def test_replaced_webhooks_are_stopped(webhook: StatusWebhook, tmp_path: Path) -> None:
    """A webhook that a changed file no longer names is closed a minute later."""
    file = tmp_path / "config"
    write_configuration(file, webhook_settings(webhook))

    async def test(ask: Ask, clock: ManualClock, authorizer: Authorization) -> None:
        assert (await ask()).allowed
        (replaced,) = authorizer._authorizers.values()
        write_configuration(file, "AlwaysDeny")
        authorizer.reload()
        assert list(authorizer._replaced) == [replaced]
        clock.advance(STOP_SECONDS)
        assert not authorizer._replaced
        (stopped,) = authorizer._stopping
        await stopped
        assert not authorizer._stopping

    run(test, authorization_config=file)


def settings_errors(**changes: Any) -> dict[str, Any]:
    """The settings of a webhook; a change to None leaves the field out."""
    settings = {
        "timeout": "3s",
        "subjectAccessReviewVersion": "v1",
        "failurePolicy": "Deny",
        "connectionInfo": {"type": "InClusterConfig"},
        **changes,
    }
    return {name: value for name, value in settings.items() if value is not None}


def conditions(*expressions: str) -> dict[str, Any]:
    return {
        "matchConditions": [{"expression": each} for each in expressions],
        "matchConditionSubjectAccessReviewVersion": "v1",
    }


def connection(kind: str, file: str | None = None) -> dict[str, Any]:
    return {"connectionInfo": {"type": kind, "kubeConfigFile": file}}


FIRST = "authorizers[0]"
INVALID = [
    ([], "authorizers: Required value: at least one authorization mode must be defined"),
    ([{"name": "a"}], f"{FIRST}.type: Required value"),
    ([{"type": "Magic", "name": "a"}], f'{FIRST}.type: Unsupported value: "Magic": supported '
     'values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"'),
    ([{"type": "RBAC", "name": "a"}, {"type": "RBAC", "name": "b"}],
     'authorizers[1].type: Duplicate value: "RBAC"'),
    ([{"type": "RBAC"}], f"{FIRST}.name: Required value"),
    ([{"type": "RBAC", "name": "a"}, {"type": "AlwaysDeny", "name": "a"}],
     'authorizers[1].name: Duplicate value: "a"'),
    ([{"type": "RBAC", "name": "A"}],
     f'{FIRST}.name: Invalid value: "A": authorizer name is invalid: a lowercase RFC 1123 '),
    ([{"type": "RBAC", "name": "a", "webhook": {"timeout": "1s"}}],
     f'{FIRST}.webhook: Invalid value: "non-null": may only be specified when type=Webhook'),
    ([{"type": "Webhook", "name": "a"}], f"{FIRST}.webhook: Required value: required when "
     "type=Webhook"),
    ({"timeout": None}, f"{FIRST}.timeout: Required value"),
    ({"timeout": "31s"}, f'{FIRST}.timeout: Invalid value: "31s": must be > 0s and <= 30s'),
    ({"timeout": "-1s"}, f'{FIRST}.timeout: Invalid value: "-1s": must be > 0s and <= 30s'),
    ({"authorizedTTL": "0s"}, f"{FIRST}.authorizedTTL: Required value"),
    ({"unauthorizedTTL": "-1s"}, f'{FIRST}.unauthorizedTTL: Invalid value: "-1s": must be > 0s'),
    ({"subjectAccessReviewVersion": None}, f"{FIRST}.subjectAccessReviewVersion: Required value"),
    ({"subjectAccessReviewVersion": "v2"}, f"{FIRST}.subjectAccessReviewVersion: Unsupported "
     'value: "v2": supported values: "v1", "v1beta1"'),
    ({"matchConditionSubjectAccessReviewVersion": "v1beta1"},
     f"{FIRST}.matchConditionSubjectAccessReviewVersion: Unsupported value"),
    ({**conditions("true"), "matchConditionSubjectAccessReviewVersion": None},
     f"{FIRST}.matchConditionSubjectAccessReviewVersion: Required value: required if match "
     "conditions are specified"),
    ({"failurePolicy": None}, f"{FIRST}.failurePolicy: Required value"),
    ({"failurePolicy": "Allow"}, f'{FIRST}.failurePolicy: Unsupported value: "Allow": supported '
     'values: "NoOpinion", "Deny"'),
    ({"connectionInfo": None}, f"{FIRST}.connectionInfo.type: Required value"),
    (connection("Magic"), f'{FIRST}.connectionInfo.type: Unsupported value: "Magic"'),
    (connection("InClusterConfig", "/f"), f"{FIRST}.connectionInfo.kubeConfigFile: Invalid value: "
     '"/f": can only be set when type=KubeConfigFile'),
    (connection("KubeConfigFile"), f"{FIRST}.connectionInfo.kubeConfigFile: Required value: "
     "required when type=KubeConfigFile"),
    (connection("KubeConfigFile", "f"), f"{FIRST}.connectionInfo.kubeConfigFile: Invalid value: "
     '"f": must be an absolute path'),
    (connection("KubeConfigFile", "/none"), 'Invalid value: "/none": error loading file: '),
    (connection("KubeConfigFile", "/"), 'Invalid value: "/": must be a regular file'),
    (conditions(" "), f"{FIRST}.matchConditions[0].expression: Required value"),
    (conditions("true", "true"),
     f'{FIRST}.matchConditions[1].expression: Duplicate value: "true"'),
    (conditions("request.nothing"), "expression: Invalid value: \"request.nothing\": compilation "
     "failed: ERROR: <input>:1:8: undefined field 'nothing'"),
    (conditions("'text'"), "compilation failed: must evaluate to bool"),
    (conditions(*map(str, range(65))), f"{FIRST}.matchConditions: Too many: 65: must have at most "
     "64 items"),
    ({"timout": "1s"}, 'unknown field "authorizers[0].webhook.timout"'),
    ({}, "connectionInfo type InClusterConfig is not supported; use KubeConfigFile"),
]  # fmt: skip


@pytest.mark.parametrize(("authorizers", "words"), INVALID)
def test_invalid(tmp_path: Path, authorizers: Any, words: str) -> None:
    """An invalid configuration is refused at the start in kube-apiserver's words."""
    if isinstance(authorizers, dict):
        webhook = settings_errors(**authorizers)
        authorizers = [{"type": "Webhook", "name": "a", "webhook": webhook}]
    file = tmp_path / "config"
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration"}
    file.write_text(json.dumps({**head, "authorizers": authorizers}))

    async def build() -> None:
        async with open_cluster(Config.of(authorization_config=file)):
            pass

    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the words are compared below)
        asyncio.run(build())
    assert words in str(caught.value)


CONTRADICTIONS = [
    ({"authorization_mode": ("RBAC",), "authorization_config": Path("f")},
     "--authorization-config can not be specified when --authorization-mode or "),
    ({"authorization_mode": ("Webhook",)},
     "authorization-mode Webhook's authorization config file not passed"),
    ({"authorization_webhook_config_file": Path("f")},
     "cannot specify --authorization-webhook-config-file without mode Webhook"),
    ({"authorization_mode": ("ABAC",)},
     "authorization-mode ABAC's authorization policy file not passed"),
    ({"authorization_policy_file": Path("f")},
     "cannot specify --authorization-policy-file without mode ABAC"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "words"), CONTRADICTIONS)
def test_contradictions(settings: Any, words: str) -> None:
    """Flags that contradict each other, or lack a file, are refused in kube-apiserver's words."""

    async def build() -> None:
        async with open_cluster(Config.of(**settings)):
            pass

    with pytest.raises(ValueError, match=words):
        asyncio.run(build())
