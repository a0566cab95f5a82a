"""Write the pages that come from the code and its tests: `make docs`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from barograph.settings import GROUPS, PREFIX

DOCS = Path(__file__).parent
ROOT = DOCS.parent
RECORDS = ROOT / "src/barograph/markets/records.py"
STANCE_RECORDS = ROOT / "src/barograph/history/records.py"

TOPICS = {
    "Payments": "payment|paid|payer|wallet|facilitator|buyer|feed (period|entitlement)|of feed",
    "Identity": "identity provider|token|openid",
    "MCP": "mcp",
    "Stances and their history": r"\bstance|histor|checkpoint",
    "Daily figures": "daily figure|fund flows|etf issuer|publisher",
    "Signals, briefs, badges and guides": "signal|brief|badge|guide",
    "Exchange and collector": "exchange|collector|contract|liquidation|reading|feed|upstream",
    "API keys and mail": r"\bkey\b|pepper|mail",
    "Requests and limits": "request|client|quer|connection|rate-limit|renders|web page",
    "Processes and files": "",
}
"""The topics of `what-happens-when.md`, with the words that select its rows; first match wins."""


def settings_page() -> str:
    """Every setting by group, with its default and its meaning."""
    lines = [
        "# Settings",
        "",
        (
            "Set these as environment variables. The service refuses to start with a "
            "`BAROGRAPH_` variable that is not on this page, so a typo can't go unnoticed. "
            "`barograph settings` prints every setting with its current value and where that "
            "comes from. `barograph doctor` checks the result."
        ),
    ]
    for title, group in GROUPS.items():
        lines += ["", f"## {title.capitalize()}", "", f"{group.__doc__}", ""]
        lines += ["| variable | default | meaning |", "|---|---|---|"]
        for name, field in group.model_fields.items():
            default = "" if field.default is None else str(field.default)
            shown = default and f"`{default}`"
            lines.append(f"| `{PREFIX}{name.upper()}` | {shown} | {field.description} |")
    return "\n".join([*lines, ""])


def fields_page() -> str:
    """The unit, sign and interval of each measured number."""
    lines = [
        "# What each number means",
        "",
        (
            "The unit, sign and interval of every number. The API writes market fields in "
            "camelCase: `last_price` is `lastPrice`."
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
    """What happens when something goes wrong, by topic, as the tests show it."""
    causes: dict[tuple[str, str], list[str]] = {}
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        for when, then, test in _outcomes(path):
            causes.setdefault((then, test), []).append(when)
    rows = sorted(("<br>".join(whens), then, test) for (then, test), whens in causes.items())
    lines = [
        "# What happens when",
        "",
        "What the service does when something fails. Each row comes from the test that proves it.",
    ]
    for topic in TOPICS:
        lines += ["", f"## {topic}", "", "| When | Then | Shown by |", "|---|---|---|"]
        lines += [
            f"| {when} | {then} | `{test}` |" for when, then, test in rows if _topic(when) == topic
        ]
    return "\n".join([*lines, ""])


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


def _topic(when: str) -> str:
    return next(topic for topic, words in TOPICS.items() if re.search(words, when, re.IGNORECASE))


def _outcomes(path: Path) -> Iterator[tuple[str, str, str]]:
    """The `outcome(when, then)` marks of a test file, on functions and parameters."""
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
