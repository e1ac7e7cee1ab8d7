"""Conversion of v1alpha1."""

from __future__ import annotations

from .. import types
from . import api_pb2, conversion


def internal_ComputeDoubleRequest(
    source: api_pb2.ComputeDoubleRequest,
) -> types.ComputeDoubleRequest:
    target = types.ComputeDoubleRequest()
    conversion.convert_pb_ComputeDoubleRequest_to_internal(source, target)
    return target


def pb_ComputeDoubleRequest(source: types.ComputeDoubleRequest) -> api_pb2.ComputeDoubleRequest:
    target = api_pb2.ComputeDoubleRequest()
    conversion.convert_internal_ComputeDoubleRequest_to_pb(source, target)
    return target


def internal_ComputeDoubleResponse(
    source: api_pb2.ComputeDoubleResponse,
) -> types.ComputeDoubleResponse:
    target = types.ComputeDoubleResponse()
    conversion.convert_pb_ComputeDoubleResponse_to_internal(source, target)
    return target


def pb_ComputeDoubleResponse(source: types.ComputeDoubleResponse) -> api_pb2.ComputeDoubleResponse:
    target = api_pb2.ComputeDoubleResponse()
    conversion.convert_internal_ComputeDoubleResponse_to_pb(source, target)
    return target
