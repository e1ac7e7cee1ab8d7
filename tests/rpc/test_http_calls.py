"""Calls as create-only resources of an API server."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from kapiserver.api.group import GroupVersion
from kapiserver.apiserver.config import Config
from kapiserver.app import RunningServer, serve
from kapiserver.cli import main, parser
from kapiserver.codecs.cbor import CBORSerializer
from kapiserver.codecs.protobuf.serializer import ProtobufSerializer, read_envelope
from kapiserver.parts import Parts
from kapiserver.rpc.api_server import ServedGroups
from kapiserver.rpc.calls import GroupRunner, Limits
from kapiserver.rpc.http_calls import api_group_name, call_group, plural
from tests.apiserver.conftest import Api, Response
from tests.rpc.groups import EXAMPLES, connected, dummy, probe, renamed

V1, V1ALPHA1 = "/apis/dummy.rpc/v1", "/apis/dummy.rpc/v1alpha1"
TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf",
         "application/cbor")  # fmt: skip


@asynccontextmanager
async def api_server(**settings: Any) -> AsyncIterator[RunningServer]:
    """A server with the groups of the examples and the probe group."""
    groups = ServedGroups(EXAMPLES, **settings.pop("groups", {}))
    group = probe()
    runner = GroupRunner(group, Limits(calls=1, seconds=0.2))
    call_groups = (*groups.call_groups, call_group(group, lambda _server: runner))
    config = Config.of(**({"secure_port": None, "insecure_port": 0} | settings))
    async with (
        serve(config, Parts(call_groups=call_groups)) as running,
        groups.serve(running.cluster.server),
    ):
        yield running


def requests(make: Callable[[Api, RunningServer], None], **settings: Any) -> None:
    """Make requests in a thread to a server in this one."""

    async def run() -> None:
        async with api_server(**settings) as running:
            with Api(int(running.insecure_url.rpartition(":")[2])) as api:
                await asyncio.to_thread(make, api, running)

    asyncio.run(run())


def create(api: Api, spec: Any, *, path: str = V1, **options: Any) -> Response:
    """Create a ComputeDouble."""
    body = {"kind": "ComputeDouble", "apiVersion": path.removeprefix("/apis/"), "spec": spec}
    return api.post(f"{path}/computedoubles", body, **options)


def test_both_versions() -> None:
    """The request is in spec, the response in status, each in the version of the URL."""

    def make(api: Api, _running: RunningServer) -> None:
        response = create(api, {"input": 2**40})
        assert (response.status, response.json["status"]) == (201, {"response": 2**41})
        assert response.json["spec"] == {"input": 2**40}
        assert create(api, {"input": 2**62}).json["status"] == {"overflow": True}
        response = create(api, {"input32": -4}, path=V1ALPHA1)
        assert (response.json["apiVersion"], response.json["status"]) == (
            "dummy.rpc/v1alpha1", {"response32": -8},
        )  # fmt: skip

    requests(make)


def test_values_that_do_not_fit() -> None:
    """The Status names the field, in the request or in the response."""

    def make(api: Api, _running: RunningServer) -> None:
        response = create(api, {"input32": 2**30}, path=V1ALPHA1)
        assert response.status == 422
        assert response.message == (
            'ComputeDouble.dummy.rpc "" is invalid: status.response32: Invalid value: '
            "2147483648: does not fit into int32"
        )
        assert response.json["details"]["causes"][0]["field"] == "status.response32"
        response = create(api, {"input32": 2**31}, path=V1ALPHA1)
        assert response.status == 400
        assert "ComputeDoubleRequest.spec.input32 of type int32" in response.message
        response = create(api, {"inputs": 1}, headers={}, path=f"{V1}")
        assert response.warnings == ['299 - "unknown field \\"spec.inputs\\""']

    requests(make)


def test_every_encoding() -> None:
    """JSON, YAML, Protobuf and CBOR, in each direction, with 64 bits intact. In Protobuf, spec and
    status are the messages of api.proto."""

    def make(api: Api, running: RunningServer) -> None:
        scheme = running.cluster.server.scheme
        protobuf, cbor = ProtobufSerializer(scheme), CBORSerializer(scheme)
        number = 2**53 + 1
        call = {
            "kind": "ComputeDouble", "apiVersion": "dummy.rpc/v1", "metadata": {},
            "spec": {"input": number}, "status": {},
        }  # fmt: skip
        bodies = dict(
            zip(
                TYPES,
                (
                    json.dumps(call).encode(),
                    yaml.safe_dump(call).encode(),
                    protobuf.encode(call),
                    cbor.encode(call),
                ),
                strict=True,
            )
        )
        read = {
            TYPES[0]: json.loads,
            TYPES[1]: yaml.safe_load,
            TYPES[2]: lambda data: protobuf.decode(data).object,
            TYPES[3]: lambda data: cbor.decode(data).object,
        }
        for sent in TYPES:
            for accepted in TYPES:
                response = api.post(
                    f"{V1}/computedoubles", bodies[sent], type=sent, accept=accepted
                )
                assert response.status == 201, response.body
                assert response.headers["Content-Type"] == accepted
                tree = read[accepted](response.body)
                assert (tree["spec"], tree["status"]) == (
                    {"input": number}, {"response": 2 * number},
                )  # fmt: skip
        message = dummy().versions[0].methods[0].response(response=2 * number)
        response = create(api, {"input": number}, accept=TYPES[2])
        assert message.SerializeToString() in read_envelope(response.body).raw

    requests(make)


def test_errors_of_the_implementation() -> None:
    """Codes of gRPC become those of HTTP; the cause has the code's name."""

    def make(api: Api, _running: RunningServer) -> None:
        def fail(text: str) -> Response:
            body = {"kind": "Fail", "apiVersion": "probe.test/v1", "spec": {"text": text}}
            return api.post("/apis/probe.test/v1/fails", body)

        response = fail("RPCError")
        assert (response.status, response.json["reason"]) == (404, "NotFound")
        assert response.json["details"]["causes"] == [
            {"reason": "NOT_FOUND", "message": "there is none"}
        ]
        response = fail("unexpected")
        assert (response.status, "secret" in response.message) == (500, False)
        body = {"kind": "Wait", "apiVersion": "probe.test/v1"}
        response = api.post("/apis/probe.test/v1/waits", body)
        assert (response.status, response.json["reason"]) == (504, "Timeout")

    requests(make)


def test_only_unary_calls_and_only_create() -> None:
    """Streams are gRPC only; no verb but create, and no items."""

    def make(api: Api, _running: RunningServer) -> None:
        names = [each["name"] for each in api.get("/apis/probe.test/v1").json["resources"]]
        assert names == ["echos", "fails", "waits", "blocks", "missings"]
        assert api.get(f"{V1}/computedoubles").status == 405
        assert api.delete(f"{V1}/computedoubles").status == 405
        assert api.get(f"{V1}/computedoubles/x").status == 404
        assert api.post("/apis/dummy.rpc/v2/computedoubles", {}).status == 404

    requests(make)


def test_deprecated_fields_warn() -> None:
    def make(api: Api, _running: RunningServer) -> None:
        body = {"kind": "Echo", "apiVersion": "probe.test/v1", "spec": {"old": True}}
        response = api.post("/apis/probe.test/v1/echos", body)
        assert response.warnings == ['299 - "probe.v1.ProbeRequest.old is deprecated"']

    requests(make)


def test_authorization() -> None:
    """RBAC decides by group and resource."""

    def make(api: Api, running: RunningServer) -> None:
        role = {
            "kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1",
            "metadata": {"name": "doubler"},
            "rules": [{"apiGroups": ["dummy.rpc"], "resources": ["computedoubles"],
                       "verbs": ["create"]}],
        }  # fmt: skip
        binding = {
            "kind": "ClusterRoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
            "metadata": {"name": "doubler"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                        "name": "doubler"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User",
                          "name": "jane"}],
        }  # fmt: skip
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        jane = {"Impersonate-User": "jane"}
        response = create(api, {"input": 1}, headers=jane)
        assert response.status == 403
        assert '"computedoubles" in API group "dummy.rpc" at the cluster scope' in response.message
        assert api.post(f"{rbac}/clusterroles", role).status == 201
        assert api.post(f"{rbac}/clusterrolebindings", binding).status == 201
        assert create(api, {"input": 1}, headers=jane).status == 201
        body = {"kind": "Echo", "apiVersion": "probe.test/v1"}
        assert api.post("/apis/probe.test/v1/echos", body, headers=jane).status == 403

    requests(make, authorization_mode=("RBAC",))


def test_audit(tmp_path: Path) -> None:
    """An event has the call with its request and response."""
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: RequestResponse\n"
        "  resources:\n  - group: dummy.rpc\n- level: None\n"
    )

    def make(api: Api, _running: RunningServer) -> None:
        create(api, {"input": 4})

    requests(make, audit_policy_file=policy, audit_log_path=str(log))
    events = [json.loads(line) for line in log.read_text().splitlines()]
    event = events[-1]
    assert (event["verb"], event["objectRef"]["resource"]) == ("create", "computedoubles")
    assert event["requestObject"]["spec"] == {"input": 4}
    assert event["responseObject"]["status"] == {"response": 8}


def test_discovery_and_openapi() -> None:
    """Both OpenAPI versions describe the request and the response."""

    def make(api: Api, _running: RunningServer) -> None:
        groups = {group["name"]: group for group in api.get("/apis").json["groups"]}
        assert [each["version"] for each in groups["dummy.rpc"]["versions"]] == ["v1", "v1alpha1"]
        assert groups["dummy.rpc"]["preferredVersion"]["version"] == "v1"
        v3 = api.get("/openapi/v3/apis/dummy.rpc/v1alpha1").json
        request = v3["components"]["schemas"]["rpc.dummy.v1alpha1.ComputeDoubleRequest"]
        assert request["properties"]["input32"]["format"] == "int32"
        v2 = api.get("/openapi/v2").json
        kind = v2["definitions"]["rpc.dummy.v1.ComputeDouble"]
        assert kind["properties"]["status"]["$ref"] == (
            "#/definitions/rpc.dummy.v1.ComputeDoubleResponse"
        )
        assert kind["x-kubernetes-group-version-kind"] == [
            {"group": "dummy.rpc", "kind": "ComputeDouble", "version": "v1"}
        ]

    requests(make)


def test_internal_client() -> None:
    """Calls are resources for controllers, too."""

    async def run() -> None:
        async with api_server() as running:
            server = running.cluster.server
            client = server.client(_admin(), authorize=False)
            calls = client.resource("dummy.rpc/v1", "computedoubles")
            answer = await calls.create({"spec": {"input": 3}})
            assert answer["status"] == {"response": 6}

    asyncio.run(run())


def _admin() -> Any:
    from kapiserver.rpc.serving import ADMIN

    return ADMIN


def test_sockets_and_metrics(tmp_path: Path) -> None:
    """With a directory for sockets the server serves gRPC, too, and counts all calls."""

    async def run() -> None:
        group = dummy()
        async with api_server(groups={"socket_dir": tmp_path / "run"}) as running:
            path = tmp_path / "run" / "rpc-dummy-v1.sock"
            async with connected(path, group.versions[0]) as client:
                assert (await client("ComputeDouble", input=2)).response == 4
            with Api(int(running.insecure_url.rpartition(":")[2])) as api:
                await asyncio.to_thread(create, api, {"input": 1})
                text = (await asyncio.to_thread(api.get, "/metrics")).body.decode()
        labels = 'grpc_type="unary",grpc_service="v1.Dummy",grpc_method="ComputeDouble"'
        for line in text.splitlines():
            if line.startswith("grpc_server_handled_total{") and "v1.Dummy" in line:
                assert 'grpc_code="OK"' in line
                assert line.endswith(" 2")
                break
        else:
            raise AssertionError(labels)

    asyncio.run(run())


KUBECTL = shutil.which("kubectl")


@pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl")
def test_kubectl() -> None:
    """`kubectl create -f`, `api-resources` and `explain`."""

    def make(_api: Api, running: RunningServer) -> None:
        def kubectl(*arguments: str, text: str = "") -> str:
            assert KUBECTL is not None
            command = [KUBECTL, "-s", running.insecure_url, *arguments]
            return subprocess.run(
                command, input=text, capture_output=True, text=True, check=True
            ).stdout

        resources = kubectl("api-resources", "--api-group=dummy.rpc", "--no-headers")
        assert resources.split() == ["computedoubles", "dummy.rpc/v1", "false", "ComputeDouble"]
        call = json.dumps(
            {"kind": "ComputeDouble", "apiVersion": "dummy.rpc/v1", "spec": {"input": 21}}
        )
        answer = kubectl("create", "-f", "-", "-o", "jsonpath={.status.response}", text=call)
        assert answer == "42"
        text = kubectl("explain", "computedoubles.spec")
        assert "input\t<integer>" in text
        assert "we changed in favor of an int64 field here" in text
        text = kubectl("explain", "computedoubles")
        assert "ComputeDouble computes the double of the input. Real smart stuff!" in text
        text = kubectl("explain", "computedoubles.spec", "--api-version=dummy.rpc/v1alpha1")
        assert "input32\t<integer>" in text

    requests(make)


def test_names() -> None:
    """The API group is <group>.<project>; Kubernetes' own are refused."""
    assert api_group_name(dummy()) == "dummy.rpc"
    with pytest.raises(ValueError, match="clash with a group of Kubernetes"):
        api_group_name(renamed(probe(), name="storage", project="k8s.io"))
    with pytest.raises(ValueError, match="cannot be served over HTTP"):
        api_group_name(renamed(probe(), project="My_Project"))
    assert [plural(kind) for kind in ("Backup", "Stats", "Query")] == [
        "backups", "statses", "queries",
    ]  # fmt: skip


def test_a_version_can_be_turned_off() -> None:
    def make(api: Api, running: RunningServer) -> None:
        assert create(api, {"input32": 1}, path=V1ALPHA1).status == 404
        assert create(api, {"input": 1}).status == 201
        assert not running.cluster.server.scheme.is_served(GroupVersion("dummy.rpc", "v1alpha1"))

    requests(make, runtime_config="dummy.rpc/v1alpha1=false")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--rpc-socket-dir=x"], "--rpc-socket-dir must be set with --rpc"),
        (
            ["--rpc=x", "--workers=2", "--etcd-servers=http://x"],
            "above 1 cannot be set with --rpc",
        ),
    ],
)
def test_flags_that_contradict(flags: list[str], words: str, capsys) -> None:
    assert main(["serve", *flags]) == 1
    assert words in capsys.readouterr().err


def test_a_directory_without_groups(tmp_path: Path, capsys) -> None:
    assert main(["rpc", "serve", str(tmp_path), "--socket-dir", str(tmp_path)]) == 1
    assert "run kapiserver rpc generate" in capsys.readouterr().err


def test_defaults_of_flags() -> None:
    """The bounds of `kapiserver rpc serve` are those of `serve --rpc`."""
    options = parser().parse_args(["rpc", "serve", "x"])
    limits = Limits(
        calls=options.max_calls,
        message_bytes=options.max_message_size,
        seconds=options.call_timeout,
    )
    assert limits == Limits()
