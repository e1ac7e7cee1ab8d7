"""Registers the versions of the group dummy."""

from __future__ import annotations

from kapiserver.rpc.registration import Group, Method, Version

from . import server, types
from .v1 import api_pb2 as v1_pb
from .v1 import conversion_generated as v1_conversion
from .v1alpha1 import api_pb2 as v1alpha1_pb
from .v1alpha1 import conversion_generated as v1alpha1_conversion

V1 = Version(
    name="v1",
    package="v1",
    service="Dummy",
    file_descriptor=v1_pb.DESCRIPTOR,
    methods=(
        Method(
            name="ComputeDouble",
            request=v1_pb.ComputeDoubleRequest,
            response=v1_pb.ComputeDoubleResponse,
            internal_request=types.ComputeDoubleRequest,
            internal_response=types.ComputeDoubleResponse,
            to_internal=v1_conversion.internal_ComputeDoubleRequest,
            from_internal=v1_conversion.pb_ComputeDoubleResponse,
            server_method="compute_double",
        ),
    ),
)

V1ALPHA1 = Version(
    name="v1alpha1",
    package="v1alpha1",
    service="Dummy",
    file_descriptor=v1alpha1_pb.DESCRIPTOR,
    methods=(
        Method(
            name="ComputeDouble",
            request=v1alpha1_pb.ComputeDoubleRequest,
            response=v1alpha1_pb.ComputeDoubleResponse,
            internal_request=types.ComputeDoubleRequest,
            internal_response=types.ComputeDoubleResponse,
            to_internal=v1alpha1_conversion.internal_ComputeDoubleRequest,
            from_internal=v1alpha1_conversion.pb_ComputeDoubleResponse,
            server_method="compute_double",
        ),
    ),
)

GROUP = Group(
    name="dummy",
    project="rpc",
    versions=(V1, V1ALPHA1),
    server_class=server.Server,
)
