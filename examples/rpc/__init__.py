"""Example groups of RPCs, which `kapiserver rpc generate examples/rpc` keeps up to date."""
