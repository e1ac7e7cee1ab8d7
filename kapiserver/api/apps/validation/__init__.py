"""Validation of the kinds of the apps group: one module a kind.

Mirrors pkg/apis/apps/validation.
"""
