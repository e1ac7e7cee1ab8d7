"""The controllers of volumes: they bind claims to volumes, expand and attach them."""
