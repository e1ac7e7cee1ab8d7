"""Rules for devices, on the hub version.

Mirrors pkg/apis/resource/validation.
"""
