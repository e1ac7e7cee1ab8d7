"""Validation of the certificates group, on the hub version.

Mirrors pkg/apis/certificates/validation.
"""
