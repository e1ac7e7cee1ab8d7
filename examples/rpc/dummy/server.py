"""The implementation of the group dummy, for all of its versions."""

from __future__ import annotations

from kapiserver.rpc.registration import Call

from . import types


class Server:
    """Doubles numbers."""

    async def compute_double(
        self, request: types.ComputeDoubleRequest, call: Call
    ) -> types.ComputeDoubleResponse:
        """Return twice the input."""
        doubled = 2 * request.input
        if -(2**63) <= doubled < 2**63:
            return types.ComputeDoubleResponse(response=doubled)
        return types.ComputeDoubleResponse(overflow=True)
