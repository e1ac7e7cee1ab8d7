"""`kapiserver check`: what would the API server say to these files?

`inputs` reads manifests, `ordering` says in which order they are applied, `server` applies them to
an API server in memory, and `refusals` turns its answers into problems. `check` connects these
parts; `outputs` writes the findings.
"""
