"""What no server says: references, selectors, ports and names that lead nowhere.

Each rule is a function of the objects of the files. A rule reads trees of any shape: values of
another type than expected count as absent, because the server has already said so.
"""
