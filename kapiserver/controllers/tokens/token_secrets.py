"""Fill Secrets of type `kubernetes.io/service-account-token`, and delete them with their account.

A Secret names its account in annotations. The controller writes `token`, `ca.crt` and `namespace`
into its data, deletes it when the account does not exist, and removes the reference to a deleted
Secret from its account. Mirrors pkg/controller/serviceaccount/tokens_controller.go.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import NamedTuple

from kapiserver.api.accessors import annotations_of, metadata_of, uid_of
from kapiserver.api.group import CORE
from kapiserver.api.selectors import FieldTerm, Selection
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import delete_object, update_object
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import Index, Informer, ObjectChange

SECRET_TYPE = "kubernetes.io/service-account-token"
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"
_TOKEN_SECRETS = Selection(fields=(FieldTerm(name="type", value=SECRET_TYPE, equal=True),))


class Account(NamedTuple):
    """A service account; an empty uid stands for any."""

    namespace: str
    name: str
    uid: str


class TokenSecret(NamedTuple):
    """A Secret that holds a token, and the account that it names."""

    name: str
    uid: str
    account: Account


class TokenSecretsController(Controller[Account | TokenSecret]):
    """The control loop. Its queue holds Secrets, and accounts that were deleted."""

    workers = 5

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._ca = base64.b64encode(context.ca_text.encode()).decode()
        self._by_account = Index(_account_keys)

    def set_up(self) -> None:
        """Watch accounts and Secrets."""
        self._accounts = self.watch(CORE, "serviceaccounts", _deleted_accounts)
        self._secrets = self.watch(CORE, "secrets", _token_secrets, self._by_account)

    async def reconcile(self, item: Account | TokenSecret) -> None:
        """Fill a Secret, delete it without its account, or remove references to a deleted one."""
        if isinstance(item, Account):
            await self._delete_secrets(item)
            return
        current = self._secrets.lister.get(ObjectKey(item.account.namespace, item.name))
        if current is None or uid_of(current.tree()) != item.uid:
            await self._remove_reference(item)
            return
        account = await self._account(item.account)
        if account is None:
            await self._delete(item)
        else:
            await self._fill(item, account)

    async def _account(self, reference: Account) -> Tree | None:
        """Return the account; read the store before it counts as missing. Raises StorageError."""
        account = _lookup(self._accounts, reference)
        if account is None:
            await self._accounts.fresh()
            account = _lookup(self._accounts, reference)
        return account

    async def _delete_secrets(self, account: Account) -> None:
        """Delete the Secrets of an account that was deleted."""
        for entry in self._by_account.get(f"{account.namespace}/{account.name}"):
            secret = _token_secret(entry)
            if secret.account.uid in ("", account.uid):
                await self._delete(secret)

    async def _delete(self, secret: TokenSecret) -> None:
        secrets = self.context.resource("v1", "secrets", namespace=secret.account.namespace)
        await delete_object(secrets, secret.name, uid=secret.uid)

    async def _remove_reference(self, secret: TokenSecret) -> None:
        """Remove a deleted Secret from the account's `secrets`."""
        account = _lookup(self._accounts, secret.account)
        if account is None or not _references(account, secret.name):
            return

        def change(current: Tree) -> Tree:
            remaining = [
                reference
                for reference in current["secrets"]
                if reference.get("name") != secret.name
            ]
            return current | {"secrets": remaining}

        accounts = self.context.resource(
            "v1", "serviceaccounts", namespace=secret.account.namespace
        )
        await update_object(accounts, secret.account.name, change, uid=uid_of(account))

    async def _fill(self, secret: TokenSecret, account: Tree) -> None:
        """Set the token unless there is one, the CA of this server and the namespace."""
        tokens = self.server.service_account_tokens

        def change(current: Tree) -> Tree:
            data: Tree = dict(current.get("data") or {})
            if self._ca:
                data["ca.crt"] = self._ca
            data["namespace"] = data.get("namespace") or _base64(secret.account.namespace)
            if tokens is not None and not data.get("token"):
                data["token"] = _base64(tokens.sign_legacy(account, current))
            if data == current.get("data"):
                return current
            metadata_of(current)["annotations"] = {
                **annotations_of(current),
                ACCOUNT_NAME: secret.account.name,
                ACCOUNT_UID: uid_of(account),
            }
            return current | {"data": data}

        secrets = self.context.resource("v1", "secrets", namespace=secret.account.namespace)
        await update_object(secrets, secret.name, change, uid=secret.uid)


def _deleted_accounts(change: ObjectChange) -> Iterator[Account]:
    if change.old is not None:
        old = change.old.tree()
        if change.new is None or uid_of(change.new.tree()) != uid_of(old):
            yield Account(*change.old.key, uid_of(old))


def _token_secrets(change: ObjectChange) -> Iterator[TokenSecret]:
    for entry in (change.old, change.new):
        if entry is not None and entry.is_selected(_TOKEN_SECRETS):
            yield _token_secret(entry)


def _lookup(accounts: Informer, account: Account) -> Tree | None:
    entry = accounts.lister.get(ObjectKey(account.namespace, account.name))
    if entry is None or account.uid not in ("", uid_of(entry.tree())):
        return None
    return entry.tree()


def _token_secret(entry: Entry) -> TokenSecret:
    tree = entry.tree()
    annotations = annotations_of(tree)
    account = Account(
        entry.key.namespace, annotations.get(ACCOUNT_NAME, ""), annotations.get(ACCOUNT_UID, "")
    )
    return TokenSecret(entry.key.name, uid_of(tree), account)


def _account_keys(entry: Entry) -> Iterator[str]:
    if entry.is_selected(_TOKEN_SECRETS):
        account = _token_secret(entry).account
        yield f"{account.namespace}/{account.name}"


def _references(account: Tree, secret_name: str) -> bool:
    return any(reference.get("name") == secret_name for reference in account.get("secrets") or ())


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
