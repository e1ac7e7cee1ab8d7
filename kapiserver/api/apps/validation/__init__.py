"""Validation of the apps group, one module for each kind.

Mirrors pkg/apis/apps/validation.
"""
