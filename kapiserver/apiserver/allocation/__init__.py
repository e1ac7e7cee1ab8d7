"""Allocation of cluster IPs and node ports to services."""

from __future__ import annotations

from kapiserver.apiserver.allocation.services import ServiceAllocation

__all__ = ["ServiceAllocation"]
