"""Rules for devices, on the hub version.

Mirrors pkg/apis/resource/validation and the rules that its types declare. Fields whose features
are off in 1.37 are gone before any rule sees them (`../features.py`).
"""
