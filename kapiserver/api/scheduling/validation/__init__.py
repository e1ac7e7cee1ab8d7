"""Validation of the scheduling group: priority classes, pod groups and workloads.

Mirrors pkg/apis/scheduling/validation and its declarative validation. All features of pod groups
count as enabled, because kube-apiserver serves pod groups only if they are.
"""
