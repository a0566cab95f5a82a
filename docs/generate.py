"""Writes the pages that are made from the code and its tests: `make docs`."""

import ast
from collections.abc import Iterator
from pathlib import Path

from barograph.settings import PREFIX, Settings

DOCS = Path(__file__).parent
ROOT = DOCS.parent
RECORDS = ROOT / "src/barograph/markets/records.py"
STANCE_RECORDS = ROOT / "src/barograph/stances/records.py"


def settings_page() -> str:
    """Every setting with its default and what it means."""
    rows = []
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None or not str(field.default) else f"`{field.default}`"
        rows.append(f"| `{PREFIX}{name.upper()}` | {default} | {field.description} |")
    return "\n".join(
        [
            "# Settings",
            "",
            (
                "Each comes from an environment variable. A name that is not in this table is "
                "refused, so a misspelt one cannot go unnoticed."
            ),
            "",
            "| variable | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def fields_page() -> str:
    """What each measured number means: unit, sign and interval."""
    lines = [
        "# What each number means",
        "",
        (
            "Generated from the docstrings in `src/barograph/markets/records.py` and the docstring "
            "of `Decision` in `src/barograph/stances/records.py`. The API publishes market fields "
            "in camelCase: `last_price` is `lastPrice`."
        ),
    ]
    stances = ast.parse(STANCE_RECORDS.read_text("utf-8")).body
    decision = [each for each in stances if getattr(each, "name", "") == "Decision"]
    for record in (*ast.parse(RECORDS.read_text("utf-8")).body, *decision):
        if isinstance(record, ast.ClassDef):
            lines += ["", f"## {record.name}", "", _flat(ast.get_docstring(record) or ""), ""]
            lines += ["| field | type | meaning |", "|---|---|---|"]
            lines += [f"| `{name}` | `{kind}` | {text} |" for name, kind, text in _fields(record)]
    return "\n".join([*lines, ""])


def outcomes_page() -> str:
    """What happens when something goes wrong, as the tests show it."""
    rows = sorted(
        {row for path in sorted(ROOT.glob("tests/**/test_*.py")) for row in _outcomes(path)}
    )
    return "\n".join(
        [
            "# What happens when",
            "",
            "Each row is shown by a test, which is named behind it; this page is made from them.",
            "",
            "| when | then | shown by |",
            "|---|---|---|",
            *(f"| {when} | {then} | `{test}` |" for when, then, test in rows),
            "",
        ]
    )


PAGES = {
    "settings.md": settings_page,
    "fields.md": fields_page,
    "what-happens-when.md": outcomes_page,
}


def _fields(record: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    for field, after in zip(record.body, [*record.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            yield field.target.id, ast.unparse(field.annotation), _flat(_text(after))
        if isinstance(field, ast.FunctionDef):
            yield field.name, ast.unparse(field.returns or ast.Constant(None)), _doc(field)


def _outcomes(path: Path) -> Iterator[tuple[str, str, str]]:
    """The `outcome(when, then)` marks of a test file, on functions and on parameters."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            for decorator in node.decorator_list:
                for call in ast.walk(decorator):
                    if _is_outcome(call):
                        when, then = (ast.literal_eval(each) for each in call.args)  # type: ignore[attr-defined]
                        yield when, then, f"{path.name}::{node.name}"


def _is_outcome(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "outcome"
    )


def _text(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return str(node.value.value)
    return ""


def _doc(node: ast.FunctionDef) -> str:
    return _flat(ast.get_docstring(node) or "")


def _flat(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), "utf-8")
