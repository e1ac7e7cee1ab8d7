"""Validation of the kinds of the batch group: one module a noun.

Mirrors pkg/apis/batch/validation.
"""
