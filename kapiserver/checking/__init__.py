"""`kapiserver check`: what would the API server say to these files?

`reading/` reads manifests, `ordering` says in which order they are applied, `run` applies them to
the API server in memory of `server`, `refusals` turns its answers into problems, `relations` and
`rules/` have what no server says, and `places` and `outputs` make findings with lines and columns.
"""
