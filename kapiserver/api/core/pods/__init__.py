"""Pods: strategies, columns, warnings, security standards, requests, references and affinity."""
