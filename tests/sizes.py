"""The size limits: modules of at most 500 lines, functions of at most 70.

`make lint` runs it; it prints each violation and fails. Modules that contain only declarations of
types are tables, and are exempt.
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


def violations(path: Path) -> list[str]:
    """Return a line for each limit that a module breaks."""
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
        for line in violations(path)
    ]
    print("\n".join(problems) if problems else "sizes: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
