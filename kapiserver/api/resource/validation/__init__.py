"""Validation of the resource group, on the hub version.

Mirrors pkg/apis/resource/validation and its declarative validation. Strategies drop disabled fields
before validation (`../disabled_fields.py`).
"""
