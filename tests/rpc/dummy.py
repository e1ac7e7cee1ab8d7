"""The group dummy of csi-proxy's API document: its files, and a project with them."""

V1ALPHA1 = """
service Dummy {
    // ComputeDouble computes the double of the input. Real smart stuff!
    rpc ComputeDouble(ComputeDoubleRequest) returns (ComputeDoubleResponse) {}
}

message ComputeDoubleRequest{
    int32 input32 = 1;
}

message ComputeDoubleResponse{
    int32 response32 = 1;
}
"""
V1 = """
service Dummy {
    // ComputeDouble computes the double of the input. Real smart stuff!
    rpc ComputeDouble(ComputeDoubleRequest) returns (ComputeDoubleResponse) {}
}

message ComputeDoubleRequest{
    // we changed in favor of an int64 field here
    int64 input = 2;
}

message ComputeDoubleResponse{
    int64 response = 2;

    // set to true if the result overflowed
    bool overflow = 3;
}
"""
TYPES = """
from dataclasses import dataclass


@dataclass
class ComputeDoubleRequest:
    input: int = 0


@dataclass
class ComputeDoubleResponse:
    response: int = 0
    overflow: bool = False
"""
CONVERSION = """
from .. import types
from . import api_pb2


def convert_pb_ComputeDoubleRequest_to_internal(source, target):
    target.input = source.input32


def convert_internal_ComputeDoubleRequest_to_pb(source, target):
    target.input32 = source.input


def convert_pb_ComputeDoubleResponse_to_internal(source, target):
    target.response = source.response32


def convert_internal_ComputeDoubleResponse_to_pb(source, target):
    target.response32 = source.response
"""
FUNCTIONS = [
    "convert_pb_ComputeDoubleRequest_to_internal(",
    "convert_internal_ComputeDoubleRequest_to_pb(",
    "convert_pb_ComputeDoubleResponse_to_internal(",
    "convert_internal_ComputeDoubleResponse_to_pb(",
]
