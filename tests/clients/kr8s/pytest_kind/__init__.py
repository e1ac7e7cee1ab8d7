"""Takes the place of the plugin pytest-kind in the tests of kr8s: the cluster is a kapiserver."""
