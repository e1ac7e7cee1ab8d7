"""Writes the Python code of groups from their protobuf files: `kapiserver rpc generate DIR`.

definitions     reads the protobuf files
rules, lock     check them
internal_types  reads what is written by hand
fields          derives the conversion of each field
files           writes the results; `*_template` modules render them
"""
