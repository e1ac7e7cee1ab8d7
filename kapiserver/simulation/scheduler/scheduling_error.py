"""An error that ends the attempt to schedule a pod, unlike a rejection by a node."""

from __future__ import annotations


class SchedulingError(Exception):
    """A pod cannot be scheduled for now, whatever its node; the condition of the pod has the
    message, with the reason SchedulerError."""
