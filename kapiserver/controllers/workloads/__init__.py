"""Workload controllers: they create and delete pods for ReplicaSets, Deployments, Jobs and others.

Each controller has a pure core, which computes actions and a status from objects and a time, and a
shell, which reads the objects from informers and carries out the actions. `pods`, `claims` and
`conditions` are shared by the cores, `pod_control` by the shells.
"""
