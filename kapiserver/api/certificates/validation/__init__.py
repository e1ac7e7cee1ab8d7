"""Validation of requests for certificates and for bundles of trusted ones, on the hub version.

Mirrors pkg/apis/certificates/validation.
"""
