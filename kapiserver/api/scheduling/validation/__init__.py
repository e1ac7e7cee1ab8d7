"""Validation of priorities, for groups of pods and for what an application's groups look like.

Mirrors pkg/apis/scheduling/validation and the rules that its types declare. Features of groups are
taken to be on: kube-apiserver serves groups to those alone who turn such features on.
"""
