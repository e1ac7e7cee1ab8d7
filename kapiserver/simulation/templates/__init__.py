"""Go's text/template: lexer, parser and evaluation within limits, with most functions of sprig.

Knows no kwok and no Kubernetes. `template.py` is the way in.
"""
