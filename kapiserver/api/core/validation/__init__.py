"""The rules for the kinds of the core group: one module a noun.

Every rule is a generator of FieldErrors over canonical, defaulted trees, in kube-apiserver's order
and words. Mirrors pkg/apis/core/validation.
"""
