"""What services are given: addresses of the cluster's ranges, and ports on every node."""

from __future__ import annotations

from kapiserver.apiserver.allocation.services import ServiceAllocation

__all__ = ["ServiceAllocation"]
