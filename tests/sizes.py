"""The size limits of the house style: modules of at most 500 lines, functions of at most 70.

Run by `make lint`; prints each offender and fails. Declarations of types are tables, not code:
modules that hold nothing but them are not counted.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODULE_LINES = 500
FUNCTION_LINES = 70


def _is_declarations(tree: ast.Module) -> bool:
    kinds = (ast.ClassDef, ast.Import, ast.ImportFrom, ast.Expr)
    return all(isinstance(node, kinds) for node in tree.body) and not any(
        isinstance(node, ast.FunctionDef) for node in ast.walk(tree)
    )


def offenders(path: Path) -> list[str]:
    """Each rule that a module breaks, as a line to print."""
    text = path.read_text()
    tree = ast.parse(text)
    problems = []
    lines = text.count("\n")
    if lines > MODULE_LINES and not _is_declarations(tree):
        problems.append(f"{path}: {lines} lines, at most {MODULE_LINES}")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                location = f"{path}:{node.lineno}: {node.name}"
                problems.append(f"{location} has {length} lines, at most {FUNCTION_LINES}")
    return problems


def main() -> int:
    problems = [
        line
        for folder in ("kapiserver", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in offenders(path)
    ]
    print("\n".join(problems) if problems else "sizes: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
