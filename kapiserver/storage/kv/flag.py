"""The flags with which `kapiserver serve` gets the settings of a backend.

A record of settings declares them in its FLAGS. Knows no parser: `flags/backends.py` adds them.
"""

from __future__ import annotations

from msgspec import Struct


class Flag(Struct, frozen=True, kw_only=True):
    """One flag of a backend.

    setting     the field that it sets, which has the flag's name with `_` for `-`
    help        the text of `--help`; %(default)s stands for the default
    metavar     the name of the value in texts, such as FILE; "" for a setting with choices
    choices     the values that it may have; () means any
    partner     a setting that must be set together with this one; "" for none
    """

    setting: str
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    partner: str = ""
