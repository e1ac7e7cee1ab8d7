"""Every error class of every package is mapped to a Status."""

import importlib
import inspect
import pkgutil

import pytest

import kapiserver
from kapiserver.api import errors as api
from kapiserver.api.apiextensions.cel.evaluation import OutOfTime
from kapiserver.api.apiextensions.cel.field_paths import InvalidFieldPath
from kapiserver.api.cel.libraries.authorization import DecisionRequired
from kapiserver.api.cel.program import CompileError
from kapiserver.api.cel.syntax import CelSyntaxError
from kapiserver.api.cel.values import CostExceeded, EvaluationError
from kapiserver.api.certificates.signer_rules import InvalidRequest
from kapiserver.api.generate import TagError
from kapiserver.api.linear_regex import InvalidPattern
from kapiserver.api.resource_client import StatusError
from kapiserver.api.strategy import ValidationTakesLong
from kapiserver.apiserver import errors as server
from kapiserver.apiserver.admission.configuration import BadAdmissionConfiguration
from kapiserver.apiserver.admission.expressions import ExpressionFailed, OutOfBudget
from kapiserver.apiserver.admission.policies.matches import MisconfiguredPolicy
from kapiserver.apiserver.admission.policies.mutations import MutationFailed
from kapiserver.apiserver.admission.policies.params import ConfigurationError
from kapiserver.apiserver.admission.static_manifests import BadManifest
from kapiserver.apiserver.admission.webhooks.calls import CallFailed
from kapiserver.apiserver.admission.webhooks.reviews import BadReview
from kapiserver.apiserver.aggregation.back_ends import BadTransport
from kapiserver.apiserver.aggregation.documents import FetchFailed
from kapiserver.apiserver.aggregation.service_resolver import Unresolved
from kapiserver.apiserver.allocation.addresses import NotAllocated
from kapiserver.apiserver.allocation.ports import PortNotAllocated
from kapiserver.apiserver.audit.truncation import EventTooLarge
from kapiserver.apiserver.authentication.authenticator import InvalidCredentials
from kapiserver.apiserver.authentication.token_file import BadTokenFile
from kapiserver.apiserver.authorization.match_conditions import ConditionFailed
from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.endpoints.decode import StrictErrors
from kapiserver.apiserver.faults import DropConnection
from kapiserver.apiserver.health import Unhealthy
from kapiserver.apiserver.http_client.errors import (
    AddressNotAllowed,
    ConnectTimeout,
    Disconnected,
    ResponseTooLarge,
    UnknownHost,
)
from kapiserver.apiserver.peers.connections import DiscoveryFailed
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.serving.http2.limits import ConnectionFault, StreamFault
from kapiserver.apiserver.serving.http2.request_fields import RefusedRequest
from kapiserver.apiserver.serving.kubeconfig import ForeignKubeconfig
from kapiserver.apiserver.serving.process.worker_channel import WorkerFailed
from kapiserver.apiserver.webhooks.http_client import WebhookFailed
from kapiserver.codecs import errors as codecs
from kapiserver.codecs.http2.frames import ProtocolError
from kapiserver.codecs.http2.hpack import HeaderListTooLarge, HpackError
from kapiserver.codecs.http2.huffman import InvalidHuffman
from kapiserver.codecs.spdy import SpdyError
from kapiserver.controllers.certificates.csr_approving import NotAuthorized
from kapiserver.controllers.policy.disruption import UnknownScale
from kapiserver.controllers.resource_claims.pod_claims import ClaimProblem
from kapiserver.controllers.status.api_service_availability import FailedCheck
from kapiserver.controllers.storage_versions.migrator import NotServedYet
from kapiserver.controllers.workloads.cron_job.controller import JobError
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.controller import (
    ScaleError,
    ScalingError,
)
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.replica_calculator import (
    MetricsError,
)
from kapiserver.controllers.workloads.pod_control import PodError
from kapiserver.doctor.remote_server import RequestRefused
from kapiserver.extension.host_cluster import HostFailed
from kapiserver.extension.schemas import UnusableType
from kapiserver.rpc.errors import OutOfRange
from kapiserver.rpc.generator.problems import InvalidDefinitions
from kapiserver.rpc.loading import BadGroups
from kapiserver.rpc.registration import ConversionError, RPCError
from kapiserver.rpc.serving import MissingExtra
from kapiserver.rpc.sockets import SocketInUse
from kapiserver.simulation.jq.errors import JqError, JqSyntaxError, StepsExceeded
from kapiserver.simulation.kwok.expressions import ExpressionError
from kapiserver.simulation.kwok.stages.expressions import StageError
from kapiserver.simulation.scheduler.devices.binding_conditions import DeviceBindingError
from kapiserver.simulation.scheduler.scheduling_error import SchedulingError
from kapiserver.simulation.templates.errors import TemplateError
from kapiserver.storage import errors as storage
from kapiserver.storage.cache.query import FetchRequired
from kapiserver.storage.encryption.config import InvalidEncryptionConfig
from kapiserver.storage.encryption.kms_messages import InvalidMessage
from kapiserver.storage.encryption.kms_provider import KMSError
from kapiserver.storage.encryption.transformers import DecryptionError
from kapiserver.storage.etcd.transport import EtcdError, RequestNotSent, ResponseLost
from kapiserver.storage.objects.continue_token import BadToken

INFO = parse_request_info("PUT", "/apis/apps/v1/namespaces/n/deployments/d", {})
BASES = {
    api.APIError, codecs.CodecError, server.ServerError, storage.ObjectError, storage.StorageError,
}  # fmt: skip
"""Base classes, never raised themselves."""
STARTUP_ERRORS = {
    BadAdmissionConfiguration, BadConfiguration, BadGroups, BadManifest, BadTokenFile,
    ForeignKubeconfig, InvalidEncryptionConfig, MissingExtra, SocketInUse, UnusableType,
    WorkerFailed,
}  # fmt: skip
"""Errors that end the start of a server."""
CAUGHT = {
    AddressNotAllowed,  # the reverse proxy raises BadRequest
    BadTransport,  # the aggregator answers with 500, and the condition of the APIService has it
    BadReview,  # the caller of the webhook raises CallFailed
    BadToken,  # the store raises BadQuery
    CallFailed,  # the request fails as the failurePolicy of the webhook says
    CelSyntaxError,  # validation of the CRD reports it
    CompileError,  # likewise
    ConnectTimeout,  # the reverse proxy raises ServiceUnavailable
    ConditionFailed,  # the authorizer answers as its failurePolicy says
    ConnectionFault,  # the HTTP/2 connection ends with GOAWAY
    ConfigurationError,  # the policy denies the request as its failurePolicy says
    ConversionError,  # calls of RPC groups raise OutOfRange instead
    CostExceeded,  # validation rules of custom resources report a FieldError
    DeviceBindingError,  # the scheduler takes another device
    DecisionRequired,  # the expression is evaluated again with the decision of the authorizer
    DecryptionError,  # the object codec raises Undecryptable instead
    InvalidMessage,
    KMSError,  # the KMS provider raises DecryptionError or EncryptionFailed instead
    NotServedYet,  # a controller tries again
    Disconnected,  # the client of webhooks raises WebhookFailed, the proxy ServiceUnavailable
    DropConnection,  # the listener aborts the connection
    EtcdError,  # the etcd store raises an error of the KV contract instead
    EventTooLarge,  # the backend of audit drops and counts the event
    EvaluationError,  # likewise, of an expression without a value
    ExpressionError,  # the usage of the container counts as 0
    ExpressionFailed,  # the webhook or policy decides as its failurePolicy says
    ClaimProblem,  # the scheduler lets the pod wait, the controller makes its claim
    HeaderListTooLarge,  # the HTTP/2 stream is refused
    HostFailed,  # the extension API server asks its host again, and is not ready meanwhile
    HpackError,  # the HTTP/2 connection ends with GOAWAY
    InvalidHuffman,  # the HPACK decoder raises HpackError instead
    FetchRequired,  # storage/cache/offload.py repeats the work in a thread
    JqError,  # the expression has no result for the object
    JqSyntaxError,  # a Stage raises StageError instead
    JobError,  # the controller of CronJobs tries again
    InvalidDefinitions,  # ends `kapiserver rpc generate`
    InvalidFieldPath,  # validation of the CRD reports it
    InvalidPattern,  # likewise
    InvalidRequest,  # the signing controller writes the condition Failed
    StageError,  # the condition of the Stage says it
    StepsExceeded,  # a query raises JqError instead
    TemplateError,  # an event about the object says it
    MisconfiguredPolicy,  # the policy denies the request as its failurePolicy says
    MutationFailed,  # the policy denies the request as its failurePolicy says
    NotAllocated,  # the allocation of services raises InvalidObject instead
    NotAuthorized,  # the approving controller tries again
    OutOfBudget,  # the webhook or policy decides as its failurePolicy says
    OutOfRange,  # calls over HTTP answer with a Status, calls over sockets with a code
    OutOfTime,  # custom strategies raise ValidationTakesLong instead
    MetricsError,  # the status and events of the HorizontalPodAutoscaler say it
    ScaleError,  # likewise
    ScalingError,  # the controller of HorizontalPodAutoscalers tries again
    PodError,  # the controllers of workloads try again
    PortNotAllocated,  # the allocation of services raises InvalidObject instead
    RPCError,  # likewise
    ProtocolError,  # the gRPC transport of etcd raises RequestNotSent or ResponseLost instead
    RefusedRequest,  # the HTTP/2 stream gets a response with its status, or a reset
    StreamFault,  # the HTTP/2 stream is reset
    RequestRefused,  # kapiserver doctor reports it
    RequestNotSent,  # the etcd store tries another endpoint
    ResponseTooLarge,  # the caller of the webhook raises WebhookFailed
    ResponseLost,  # the etcd store raises Unavailable instead
    StatusError,  # the internal client raises it for an error Status
    SpdyError,  # the connection is closed
    StrictErrors,  # decoding raises BadObject instead
    SchedulingError,  # the scheduler writes it to the condition of the pod
    TagError,  # ends `make generate`
    UnknownScale,  # the status and an event of the PodDisruptionBudget say it
    UnknownHost,  # the client of webhooks raises WebhookFailed, the proxy BadRequest
    InvalidCredentials,  # the union of authenticators raises Unauthorized
    Unhealthy,  # a health check reports it
    ValidationTakesLong,  # storage/cache/offload.py does the work in a thread
    WebhookFailed,  # the caller of the webhook raises its own error
    DiscoveryFailed,  # the work queue asks the peer again
    FetchFailed,  # the work queue fetches the document again
    FailedCheck,  # the work queue repeats the check
    Unresolved,  # the aggregator answers with 503, and the condition of the APIService has it
}
"""Errors that are caught in the package that raises them, and what happens instead."""


def _error_classes() -> list[type[Exception]]:
    classes: set[type[Exception]] = set()
    for module in pkgutil.walk_packages(kapiserver.__path__, "kapiserver."):
        if module.name == "kapiserver.client":
            continue  # separate from the server
        for value in vars(importlib.import_module(module.name)).values():
            is_error = inspect.isclass(value) and issubclass(value, Exception)
            if is_error and value.__module__.startswith("kapiserver.") and value.__name__[0] != "_":
                classes.add(value)
    classes -= BASES | STARTUP_ERRORS | CAUGHT
    return sorted(classes, key=lambda class_: class_.__name__)


@pytest.mark.parametrize("error", _error_classes(), ids=lambda error: error.__name__)
def test_every_error_is_mapped(error: type[Exception]) -> None:
    """Every error class that can reach a client has a row in errors.TABLE."""
    assert any(base in server.TABLE for base in error.__mro__)


def test_unexpected_errors() -> None:
    """An exception without a row in the table has no Status of its own."""
    assert server.status_of(KeyError("x"), INFO) is None


STATUSES = [
    (
        storage.NotFound(resource="deployments", group="apps", name="d"),
        404, "NotFound", 'deployments.apps "d" not found',
        {"name": "d", "group": "apps", "kind": "deployments"},
    ),
    (
        storage.ObjectConflict(resource="pods", group="", name="p"),
        409, "Conflict",
        'Operation cannot be fulfilled on pods "p": the object has been modified; please apply '
        "your changes to the latest version and try again",
        {"name": "p", "kind": "pods"},
    ),
    (server.UnknownResource(), 404, "NotFound",
     "the server could not find the requested resource", {}),
    (storage.DefinitionDeleted("no kind"), 404, "NotFound",
     "the server could not find the requested resource",
     {"name": "d", "group": "apps", "kind": "deployments"}),
    (server.MethodNotAllowed(), 405, "MethodNotAllowed",
     "the server does not allow this method on the requested resource", {}),
    (server.BodyTooLarge(3145728), 413, "RequestEntityTooLarge",
     "Request entity too large: limit is 3145728", None),
    (server.MisdirectedRequest("wrong host"), 421, None, "wrong host", None),
    (server.Unauthorized(), 401, "Unauthorized", "Unauthorized", None),
    (server.RequestTimeout(), 504, "Timeout",
     "Timeout: request did not complete within the allotted timeout", {}),
]  # fmt: skip


@pytest.mark.parametrize(("error", "code", "reason", "message", "details"), STATUSES)
def test_statuses(error, code, reason, message, details) -> None:
    """Code, reason, message and details equal those of kube-apiserver."""
    tree = server.status_of(error, INFO)
    assert tree is not None
    assert list(tree)[:4] == ["kind", "apiVersion", "metadata", "status"]
    assert (tree["code"], tree.get("reason"), tree["message"]) == (code, reason, message)
    assert tree.get("details") == details


def test_invalid_objects() -> None:
    """Each validation error is a cause."""
    errors = [api.required(api.Path("spec") / "a"), api.invalid(api.Path("spec") / "b", 1, "no")]
    error = api.InvalidObject(group="apps", kind="Deployment", name="d", errors=errors)
    tree = server.status_of(error, INFO)
    assert tree is not None
    assert tree["code"] == 422
    assert tree["details"]["causes"] == [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.a"},
        {"reason": "FieldValueInvalid", "message": "Invalid value: 1: no", "field": "spec.b"},
    ]


def test_messages_of_field_errors_are_made_once() -> None:
    """The thread that validates an object makes the messages, whose values may be large, and not
    the event loop, which makes the Status."""
    value = ["before"]
    field_error = api.invalid(api.Path("spec"), value, "must be other")
    error = api.InvalidObject(group="", kind="Pod", name="p", errors=[field_error])
    value[0] = "after"
    info = parse_request_info("POST", "/api/v1/namespaces/default/pods", {})
    status = server.status_of(error, info)
    assert status is not None
    assert status["details"]["causes"][0]["message"] == ('Invalid value: ["before"]: must be other')
