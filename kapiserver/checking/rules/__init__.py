"""Rules for what no server checks: references, selectors and named ports that match nothing, and
names that collide.

Each rule is a function of the objects of the files. A rule reads trees of any shape: values of
another type than expected count as absent, because the server has already said so.
"""
