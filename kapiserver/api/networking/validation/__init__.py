"""Validation of the kinds of the networking group: one module a noun.

Mirrors pkg/apis/networking/validation.
"""
