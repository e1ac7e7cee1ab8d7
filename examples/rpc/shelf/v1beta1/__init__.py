"""Version v1beta1 of the group shelf."""
