"""Validation of the networking group, one module for each subject.

Mirrors pkg/apis/networking/validation.
"""
