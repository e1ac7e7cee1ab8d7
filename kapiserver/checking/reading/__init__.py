"""Reads what a check gets: paths, files, their documents and objects, built kustomizations."""
