"""Devices of dynamic resource allocation (DRA): which devices a pod's ResourceClaims get on a node.

    inventory       what is known of claims, classes, slices and taint rules
    slices, pools   the devices that drivers offer, and those that a node can use
    requests        the requests of a claim
    extended_resources  claims for resources that device classes provide
    constraints, capacity, counters     what must hold for the devices of a solution
    allocator       the search for a solution
    allocation      the solution as it is written to the status of a claim

All modules are pure. Mirrors k8s.io/dynamic-resource-allocation/structured.
"""
