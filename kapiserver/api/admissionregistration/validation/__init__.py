"""Rules for webhooks and policies.

Mirrors pkg/apis/admissionregistration/validation.
"""
