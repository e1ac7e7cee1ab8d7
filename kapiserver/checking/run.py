"""Runs one check on one server: applies the objects in their order and collects the problems."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import Resource
from kapiserver.api.types import Tree
from kapiserver.apiserver.user import User
from kapiserver.apiserver.version import emulated_minor
from kapiserver.checking.finding import ERROR, WARNING, Problem, Severity
from kapiserver.checking.options import CheckOptions
from kapiserver.checking.ordering import BINDINGS, DEFINITION, POLICIES, in_order
from kapiserver.checking.reading.documents import Manifest, Read
from kapiserver.checking.refusals import problem_of_warning, problems_of_status
from kapiserver.checking.relations import Relations
from kapiserver.checking.removed_versions import introduction_of, removal_of
from kapiserver.checking.rules.pod_templates import judges_pods, new_pod, pod_steps
from kapiserver.checking.rules.values import text_at
from kapiserver.checking.server import CheckServer, Outcome, namespace_in, user_of
from kapiserver.checking.upgrades import lost_fields
from kapiserver.checking.webhooks import NEVER_STORED, has_conversion_webhook, without_conversion

_JUDGES = (*POLICIES, *BINDINGS)
_RULES_OF_PODS = ("policy", "pod-security", "quota", "limit-range")
"""Rules that the pods of an accepted controller may break."""
_NO_NAME = "resource name may not be empty"


class Run:
    """A check. `problems` has what was found so far."""

    def __init__(self, server: CheckServer, options: CheckOptions) -> None:
        self.problems: list[tuple[Manifest, Problem]] = []
        self._server = server
        self._options = options
        self._minor = emulated_minor(options.release)
        self._user = user_of(options.user) if options.user else None
        self._relations = Relations(server)
        self._judges_pods = False
        """Whether something in the cluster may refuse pods."""
        self._applied: dict[tuple[str, ...], Manifest] = {}
        """The checked objects, by group, kind, namespace and name."""

    async def check(self, manifests: Sequence[Manifest]) -> None:
        """Apply what the options have, then the other manifests; then look at what no server
        says."""
        options = self._options
        before = {id(name) for name in (*options.cluster, *options.context, *options.against)}
        await self._load_cluster(options.cluster)
        await self._apply_all_before(options.context, reports=True)
        await self._apply_all_before(options.against, reports=False)
        self._judges_pods = any(judges_pods(manifest.tree) for manifest in manifests)
        await self._check_all([manifest for manifest in manifests if id(manifest) not in before])
        async for manifest, problem in self._relations.problems():
            self._add(manifest, problem)

    def _add(self, manifest: Manifest, *problems: Problem) -> None:
        self.problems.extend((manifest, problem) for problem in problems)

    def _add_new(
        self, manifest: Manifest, severity: Severity, rule: str, message: str, *steps: str | int
    ) -> None:
        problem = Problem(steps=steps, severity=severity, message=message, rule=rule)
        self._add(manifest, problem)

    # What there is before.

    async def _load_cluster(self, reads: Sequence[Read]) -> None:
        """Store the objects of a cluster; its policies come last, they do not judge the others."""
        manifests = [read for read in reads if isinstance(read, Manifest)]
        policies = [manifest for manifest in manifests if manifest.tree["kind"] in _JUDGES]
        others = [manifest for manifest in manifests if manifest.tree["kind"] not in _JUDGES]
        for group in (others, policies):
            for stage, settles in in_order(group):
                for manifest in stage:
                    await self._load(manifest)
                if settles:
                    await self._server.settle()

    async def _load(self, manifest: Manifest) -> None:
        tree = manifest.tree
        resource = self._find_resource(tree)
        if isinstance(resource, Problem):
            self._add_new(manifest, WARNING, "not-loaded", resource.message, *resource.steps)
        elif tree["kind"] not in NEVER_STORED and self._check_name(manifest):
            if has_conversion_webhook(tree):
                tree = without_conversion(tree)
            self._note_not_loaded(manifest, await self._server.load(tree, resource))

    async def _apply_all_before(self, reads: Sequence[Read], *, reports: bool) -> None:
        """Apply objects before those that are checked.

        reports     whether what the server refuses is an error; else it is a warning
        """
        for stage, settles in in_order(read for read in reads if isinstance(read, Manifest)):
            for manifest in stage:
                await self._apply_before(manifest, reports=reports)
            if settles:
                await self._server.settle()

    async def _apply_before(self, manifest: Manifest, *, reports: bool) -> None:
        resource = self._resource(manifest)
        if resource is None or not self._check_name(manifest):
            return
        tree = manifest.tree
        outcome = await self._write(tree, resource)
        problems = problems_of_status(outcome.status, tree) if outcome.status else ()
        if any(problem.rule == "namespace-not-found" for problem in problems):
            await self._create_namespace(namespace_in(tree, resource))
            outcome = await self._write(tree, resource)
        if not reports:
            self._note_not_loaded(manifest, outcome)
        elif outcome.status is not None:
            self._add(manifest, *problems_of_status(outcome.status, tree))

    def _note_not_loaded(self, manifest: Manifest, outcome: Outcome) -> None:
        if outcome.status is not None:
            message = str(outcome.status.get("message"))
            self._add_new(manifest, WARNING, "not-loaded", message)

    # What is checked.

    async def _check_all(self, manifests: Sequence[Manifest]) -> None:
        """Apply the manifests in the order in which each finds what it needs."""
        checked = 0
        for stage, settles in in_order(manifests):
            for manifest in stage:
                await self._check(manifest)
                checked += 1
                self._options.progress(checked, len(manifests))
            if settles:
                await self._server.settle()
            if stage[0].tree["kind"] == DEFINITION:
                await self._note_lost_fields(stage)

    async def _check(self, manifest: Manifest) -> None:
        resource = self._resource(manifest)
        if resource is None:
            self._relations.add(manifest, text_at(manifest.tree, "metadata", "namespace"))
            return
        if not self._check_name(manifest):
            return
        tree = manifest.tree
        namespace = namespace_in(tree, resource)
        self._note_duplicate(manifest, resource, namespace)
        self._relations.add(manifest, namespace)
        problems = await self._problems(tree, resource)
        self._add(manifest, *problems)
        is_lost = any(problem.rule == "namespace-not-found" for problem in problems)
        if is_lost and await self._create_namespace(namespace):
            problems = await self._problems(tree, resource)
            self._add(manifest, *problems)
        if not any(problem.severity == ERROR for problem in problems):
            said = {problem.rule for problem in problems}
            pod_problems = await self._pod_problems(tree, namespace)
            self._add(manifest, *(problem for problem in pod_problems if problem.rule not in said))

    def _resource(self, manifest: Manifest) -> Resource | None:
        """Return the resource of an object; note if it is not served."""
        resource = self._find_resource(manifest.tree)
        if isinstance(resource, Problem):
            self._add(manifest, resource)
            return None
        return resource

    def _find_resource(self, tree: Tree) -> Resource | Problem:
        """Return the resource of an object, or why there is none."""
        version, kind = tree["apiVersion"], tree["kind"]
        rule, hint = "unknown-kind", ""
        try:
            return self._server.resource_of(tree)
        except ValueError as error:
            message = str(error)
        except NotRegistered as error:
            message = str(error)
            removal = removal_of(self._server.server.scheme, version, kind, self._minor)
            rule = "removed-version" if removal else rule
            hint = removal or introduction_of(version, kind, self._minor)
        return Problem(
            steps=("apiVersion",),
            severity=ERROR,
            message=f"{message}: {hint}" if hint else message,
            rule=rule,
        )

    def _check_name(self, manifest: Manifest) -> bool:
        """Report whether an object has a name; note if not."""
        metadata = manifest.tree.get("metadata")
        if isinstance(metadata, dict):
            name = metadata.get("name") or metadata.get("generateName")
            if isinstance(name, str) and name:
                return True
        self._add_new(manifest, ERROR, "no-name", _NO_NAME, "metadata", "name")
        return False

    async def _problems(self, tree: Tree, resource: Resource) -> list[Problem]:
        """Apply an object; return what the server says. An object that the user may not apply is
        applied by an administrator, too."""
        denied = ""
        if self._user is not None:
            denied = await self._server.denial(self._user, tree, resource)
        outcome = await self._write(tree, resource, None if denied else self._user)
        problems = _problems_of(outcome, tree)
        if denied:
            problems.insert(0, Problem(severity=ERROR, message=denied, rule="not-allowed"))
        return problems

    async def _pod_problems(self, tree: Tree, namespace: str) -> Sequence[Problem]:
        """Try to create a pod of a controller. The server takes the controller, and its pods may be
        refused later."""
        pod = new_pod(tree, namespace)
        if pod is None or not self._judges_pods:
            return ()
        outcome = await self._server.apply(pod, self._server.resource_of(pod), dry_run=True)
        if outcome.status is None:
            return ()
        return [
            Problem(
                steps=pod_steps(tree) or (),
                severity=WARNING,
                message=f"its pods are refused: {problem.message}",
                rule=problem.rule,
            )
            for problem in problems_of_status(outcome.status, pod)
            if problem.rule in _RULES_OF_PODS
        ]

    async def _write(self, tree: Tree, resource: Resource, user: User | None = None) -> Outcome:
        """Apply an object, or only try if its existence would make the server call others."""
        if not has_conversion_webhook(tree):
            dry_run = tree["kind"] in NEVER_STORED
            return await self._server.apply(tree, resource, dry_run=dry_run, user=user)
        outcome = await self._server.apply(tree, resource, dry_run=True, user=user)
        if outcome.status is None:
            await self._server.apply(without_conversion(tree), resource)
        return outcome

    async def _create_namespace(self, name: str) -> bool:
        """Create a namespace that is missing, so that its objects are checked too; report whether
        that is possible."""
        tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        outcome = await self._server.apply(tree, self._server.resource_of(tree))
        await self._server.settle()
        return outcome.status is None

    def _note_duplicate(self, manifest: Manifest, resource: Resource, namespace: str) -> None:
        """Warn of an object that was applied before."""
        name = manifest.tree["metadata"].get("name")
        if not name:
            return
        key = (resource.group, resource.kind, namespace, name)
        other = self._applied.setdefault(key, manifest)
        if other is not manifest:
            place = other.document
            where = f" in {place.file}, line {place.first_line}" if place is not None else ""
            message = (
                f"the same object is{where} too" if where else "the same object is given twice"
            )
            self._add_new(manifest, WARNING, "duplicate-object", message, "metadata", "name")

    async def _note_lost_fields(self, definitions: Collection[Manifest]) -> None:
        """Warn of fields of the objects that are there, which the new definitions drop."""
        reads = (*self._options.cluster, *self._options.against)
        objects = [read.tree for read in reads if isinstance(read, Manifest)]
        for manifest in definitions:
            if not has_conversion_webhook(manifest.tree):
                async for problem in lost_fields(self._server, manifest.tree, objects):
                    self._add(manifest, problem)


def _problems_of(outcome: Outcome, tree: Tree) -> list[Problem]:
    problems = [problem_of_warning(text, tree) for text in outcome.warnings]
    if outcome.status is not None:
        problems += problems_of_status(outcome.status, tree)
    return problems
