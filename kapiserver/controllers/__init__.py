"""Control loops: each watches objects and brings the cluster to the state that they ask for.

Stands above apiserver, which never imports it. `registry.py` lists the controllers; `manager.py`
starts and stops them.
"""
