"""Validation of the batch group, one module for each subject.

Mirrors pkg/apis/batch/validation.
"""
