"""ResourceClaims of pods: made from templates, reserved, released and deleted."""
