"""Validation of webhooks and policies.

Mirrors pkg/apis/admissionregistration/validation.
"""
