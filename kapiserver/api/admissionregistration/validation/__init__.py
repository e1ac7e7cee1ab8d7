"""Validation of webhook configurations, admission policies and their bindings.

Mirrors pkg/apis/admissionregistration/validation.
"""
