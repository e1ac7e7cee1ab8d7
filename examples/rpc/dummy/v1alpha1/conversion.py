"""Conversion of v1alpha1, whose fields have other names and 32 bits.

The server calls the first and the last function, and a client of internal types the others.
"""

from __future__ import annotations

from kapiserver.rpc.conversion import int32

from .. import types
from . import api_pb2


def convert_pb_ComputeDoubleRequest_to_internal(
    source: api_pb2.ComputeDoubleRequest, target: types.ComputeDoubleRequest
) -> None:
    target.input = source.input32


def convert_internal_ComputeDoubleRequest_to_pb(
    source: types.ComputeDoubleRequest, target: api_pb2.ComputeDoubleRequest
) -> None:
    target.input32 = int32("input", source.input)


def convert_pb_ComputeDoubleResponse_to_internal(
    source: api_pb2.ComputeDoubleResponse, target: types.ComputeDoubleResponse
) -> None:
    target.response = source.response32


def convert_internal_ComputeDoubleResponse_to_pb(
    source: types.ComputeDoubleResponse, target: api_pb2.ComputeDoubleResponse
) -> None:
    target.response32 = int32("response32", source.response)
