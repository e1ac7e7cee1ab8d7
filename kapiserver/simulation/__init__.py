"""Simulated nodes and pods: what a kubelet reports, without containers (`--simulate`)."""
