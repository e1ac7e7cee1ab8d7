"""Conversion of v1."""

from __future__ import annotations

from kapiserver.rpc import conversion as rules

from .. import types
from . import api_pb2


def internal_ComputeDoubleRequest(
    source: api_pb2.ComputeDoubleRequest,
) -> types.ComputeDoubleRequest:
    return types.ComputeDoubleRequest(input=source.input)


def pb_ComputeDoubleRequest(source: types.ComputeDoubleRequest) -> api_pb2.ComputeDoubleRequest:
    target = api_pb2.ComputeDoubleRequest()
    target.input = rules.int64("input", source.input)
    return target


def internal_ComputeDoubleResponse(
    source: api_pb2.ComputeDoubleResponse,
) -> types.ComputeDoubleResponse:
    return types.ComputeDoubleResponse(response=source.response, overflow=source.overflow)


def pb_ComputeDoubleResponse(source: types.ComputeDoubleResponse) -> api_pb2.ComputeDoubleResponse:
    target = api_pb2.ComputeDoubleResponse()
    target.response = rules.int64("response", source.response)
    target.overflow = source.overflow
    return target
