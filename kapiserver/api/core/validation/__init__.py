"""Validation of the kinds of the core group, one module for each subject.

Every `validate_...` function is a generator of FieldErrors. It reads canonical, defaulted trees and
reports errors in the order and with the messages of kube-apiserver. Mirrors
pkg/apis/core/validation.
"""
