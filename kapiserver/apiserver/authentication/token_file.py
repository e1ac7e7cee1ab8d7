"""Authenticates the static bearer tokens of `--token-auth-file`.

Mirrors pkg/authentication/token/tokenfile of k8s.io/apiserver.
"""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from kapiserver.apiserver.authentication.authenticator import (
    ManagedAuthenticator,
    TokenIdentity,
    shared_audiences,
)
from kapiserver.apiserver.user import User, with_authenticated

_log = logging.getLogger(__name__)


class BadTokenFile(Exception):
    """The token file has a line without token, user and uid, or is not a CSV file."""


class TokenFileAuthenticator(ManagedAuthenticator):
    """Recognizes the tokens of a file.

    users       the users by token
    audiences   the audiences for which these tokens are valid
    path        the path of the file, which `reload` reads again
    """

    def __init__(
        self, users: Mapping[str, User], audiences: Sequence[str], path: Path | None = None
    ) -> None:
        self._users = users
        self._audiences = audiences
        self._path = path

    @classmethod
    def of_file(cls, path: Path, audiences: Sequence[str]) -> TokenFileAuthenticator:
        """Return the authenticator of a file. Raises BadTokenFile, OSError."""
        return cls(read_token_file(path), audiences, path)

    def reload(self) -> None:
        """Read the file again."""
        if self._path is None:
            return
        try:
            self._users = read_token_file(self._path)
        except (BadTokenFile, OSError) as error:
            _log.error("the changed token file is not used: %s", error)

    def authenticate_token(self, token: str, audiences: Sequence[str] = ()) -> TokenIdentity | None:
        """Return the identity; see TokenAuthenticator."""
        user = self._users.get(token)
        if user is None:
            return None
        if not audiences:
            return TokenIdentity(user=user, audiences=self._audiences)
        valid = shared_audiences(audiences, self._audiences)
        return TokenIdentity(user=user, audiences=valid) if valid else None


def read_token_file(path: Path) -> dict[str, User]:
    """Read a file of `token,user,uid,"group1,group2"` lines. Raises BadTokenFile, OSError."""
    users: dict[str, User] = {}
    try:
        rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadTokenFile(f"{path}: {error}") from error
    for number, row in enumerate(rows, 1):
        if not row or row[0].startswith("#"):
            continue
        if len(row) < 3 or not row[0].strip() or not row[1].strip():
            raise BadTokenFile(
                f"{path}, line {number}: want at least 3 columns: token, user name, user uid"
            )
        token, name, uid = (cell.strip() for cell in row[:3])
        cells = row[3].split(",") if len(row) > 3 else ()
        groups = with_authenticated(name, tuple(filter(None, map(str.strip, cells))))
        users[token] = User(name=name, uid=uid, groups=groups)
    return users
