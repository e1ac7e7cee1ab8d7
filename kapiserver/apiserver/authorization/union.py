"""Several authorizers in order. Mirrors pkg/authorization/union of k8s.io/apiserver."""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.go_format import join_errors
from kapiserver.apiserver.authorization.metrics import DecisionCounts
from kapiserver.apiserver.authorizer import Authorizer, Decision, Rules, Verdict
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import User

_ALLOW, _NO_OPINION = Verdict.ALLOW, Verdict.NO_OPINION


class UnionAuthorizer:
    """Asks each authorizer in turn until one allows or denies."""

    def __init__(
        self, authorizers: Sequence[Authorizer], counts: Sequence[DecisionCounts] = ()
    ) -> None:
        """`counts` has the counts of decisions of each authorizer."""
        self._authorizers = tuple(authorizers)
        self._counted = tuple(
            zip(authorizers, counts or [DecisionCounts() for _ in authorizers], strict=True)
        )

    async def authorize(self, user: User, info: RequestInfo) -> Decision:
        """Return the first decision that is not NO_OPINION; otherwise NO_OPINION with the reasons
        of all authorizers, one a line, and their errors."""
        undecided = []
        for authorizer, counts in self._counted:
            decision = await authorizer.authorize(user, info)
            if decision.verdict is _ALLOW:
                counts.allowed += 1
                return decision
            if decision.verdict is not _NO_OPINION:
                counts.denied += 1
                return decision
            undecided.append(decision)
        reasons = [decision.reason for decision in undecided if decision.reason]
        errors = [decision.error for decision in undecided if decision.error]
        return Decision(verdict=_NO_OPINION, reason="\n".join(reasons), error=join_errors(errors))

    async def rules_for(self, user: User, namespace: str) -> Rules:
        """Return the rules of all authorizers together."""
        lists = [await authorizer.rules_for(user, namespace) for authorizer in self._authorizers]
        return Rules(
            resources=[rule for rules in lists for rule in rules.resources],
            paths=[rule for rules in lists for rule in rules.paths],
            incomplete=any(rules.incomplete for rules in lists),
            error=join_errors(rules.error for rules in lists if rules.error),
        )
