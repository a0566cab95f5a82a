"""Every requirement has a statement and a test, and every test names known requirements.

Test sources are read with ``ast`` and never imported.
"""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parent

SHOWN = ("tested", "decision")
STATES = (*SHOWN, "background")
ID_FORM = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)+")


@dataclass(frozen=True)
class Entry:
    """A requirement of the manifest."""

    id: str
    state: str = ""
    statement: str = ""


@dataclass(frozen=True)
class Named:
    """An id that a test names, and where."""

    id: str
    where: str


def read_manifest(text: str) -> list[Entry]:
    """Read the manifest.

    Raises:
        tomllib.TOMLDecodeError: the text is not TOML, or an id is used twice.
        TypeError: an entry has a member that is not ``state`` or ``statement``.
    """
    return [Entry(entry_id, **members) for entry_id, members in tomllib.loads(text).items()]


def entry_problems(entries: Iterable[Entry]) -> Iterator[str]:
    """What is wrong with the entries themselves."""
    for entry in entries:
        if not ID_FORM.fullmatch(entry.id):
            yield f"{entry.id}: write the id as lower-case words, like derivatives.symbol.pattern"
        if entry.state not in STATES:
            yield f"{entry.id}: state {entry.state!r}; use one of {', '.join(STATES)}"
        if not entry.statement.strip():
            yield f"{entry.id}: add a statement: what is required, in plain words"


def named_ids(root: Path) -> tuple[list[Named], list[str]]:
    """The ids that the tests under ``root`` name, and the markers that cannot be read."""
    named: list[Named] = []
    problems: list[str] = []
    for path in sorted(root.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "mark.contract" not in source:  # no marker; walking every tree takes seconds
            continue
        tree = ast.parse(source, filename=str(path))
        attached = {id(n) for part in _marked_parts(tree, path.name) for n in ast.walk(part)}
        calls = {id(n.func): n for n in ast.walk(tree) if isinstance(n, ast.Call)}
        for node in _contract_marks(tree):
            where = f"{path.relative_to(root.parent)}:{node.lineno}"
            ids = _literal_ids(calls.get(id(node)))
            if not ids:
                problems.append(
                    f'{where}: name the ids as string literals: @pytest.mark.contract("some.id")'
                )
            elif id(node) not in attached:
                problems.append(
                    f"{where}: this marker is on no test; put it on a test function or class, "
                    "in pytestmark, or in the marks= of a pytest.param"
                )
            else:
                named.extend(Named(entry_id, where) for entry_id in ids)
    return named, problems


def _contract_marks(tree: ast.Module) -> Iterator[ast.Attribute]:
    """Every ``pytest.mark.contract`` or ``mark.contract``, called or not."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(
                attr="contract", value=ast.Attribute(attr="mark") | ast.Name(id="mark")
            ):
                yield node


def _literal_ids(call: ast.Call | None) -> list[str]:
    """The ids of one marker; none when any of them is not a string literal."""
    if call is None or call.keywords:
        return []
    ids = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return ids if len(ids) == len(call.args) else []


def _marked_parts(tree: ast.Module, filename: str) -> Iterator[ast.AST]:
    """The expressions where pytest would take a marker from."""
    collected = filename.startswith("test_")
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="marks"):
                yield node.value
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if collected and node.name.lower().startswith("test"):
                    yield from node.decorator_list
            case ast.Assign(targets=[ast.Name(id="pytestmark")]) if collected:
                yield node.value


def marker_problems(entries: Iterable[Entry], named: Iterable[Named]) -> Iterator[str]:
    """Ids that a test names and must not, and requirements that no test names."""
    states = {entry.id: entry.state for entry in entries}
    named = list(named)
    for mark in named:
        if mark.id not in states:
            yield f"{mark.where}: unknown id {mark.id!r}; take one from manifest.toml"
        elif states[mark.id] not in SHOWN:
            yield (
                f"{mark.where}: {mark.id!r} is {states[mark.id]!r} in manifest.toml; "
                'set it to "tested", or take it off this test'
            )
    shown = {entry_id for entry_id, state in states.items() if state in SHOWN}
    for entry_id in sorted(shown - {mark.id for mark in named}):
        yield f'{entry_id}: no test; put @pytest.mark.contract("{entry_id}") on one that shows it'


ENTRIES = read_manifest((HERE / "manifest.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def marks() -> tuple[list[Named], list[str]]:
    return named_ids(TESTS)


def assert_none(problems: Iterable[str]) -> None:
    listed = list(problems)
    if listed:
        pytest.fail("\n".join(listed), pytrace=False)


def test_every_entry_has_a_well_formed_id_a_state_and_a_statement() -> None:
    assert ENTRIES
    assert_none(entry_problems(ENTRIES))


def test_every_marker_names_its_ids_literally_on_a_test(
    marks: tuple[list[Named], list[str]],
) -> None:
    assert_none(marks[1])


def test_every_requirement_has_a_test_and_every_named_id_is_a_requirement(
    marks: tuple[list[Named], list[str]],
) -> None:
    assert_none(marker_problems(ENTRIES, marks[0]))


# The checks themselves, on small texts.


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ('@pytest.mark.contract(f"a.{b}")\ndef test_a(): ...', "string literals"),
        ('@pytest.mark.contract("a.b", *MORE)\ndef test_a(): ...', "string literals"),
        ("@pytest.mark.contract\ndef test_a(): ...", "string literals"),
        ("shown = pytest.mark.contract", "string literals"),
        ("from pytest import mark\n@mark.contract(7)\ndef test_a(): ...", "string literals"),
        ('shown = pytest.mark.contract("a.b")', "on no test"),
        ('@pytest.mark.contract("a.b")\ndef helper(): ...', "on no test"),
    ],
)
def test_a_marker_that_cannot_be_read_is_found(tmp_path: Path, source: str, complaint: str) -> None:
    (tmp_path / "test_sample.py").write_text(source)

    named, problems = named_ids(tmp_path)

    assert named == []
    assert len(problems) == 1
    assert complaint in problems[0]


def test_a_marker_in_a_file_that_pytest_does_not_collect_is_found(tmp_path: Path) -> None:
    (tmp_path / "sample.py").write_text('@pytest.mark.contract("a.b")\ndef test_a(): ...')

    named, problems = named_ids(tmp_path)

    assert named == []
    assert len(problems) == 1


SMALL = [
    Entry("a.tested", "tested", "It works."),
    Entry("a.choice", "decision", "It works this way."),
    Entry("a.heading", "background", "What follows is about working."),
]


@pytest.mark.parametrize(
    ("named", "complaint"),
    [
        (["a.choice"], "a.tested: no test"),
        (["a.tested"], "a.choice: no test"),
        (["a.tested", "a.choice", "a.typo"], "unknown id 'a.typo'"),
        (["a.tested", "a.choice", "a.heading"], "'a.heading' is 'background'"),
    ],
)
def test_tests_and_states_that_disagree_are_found(named: list[str], complaint: str) -> None:
    problems = list(marker_problems(SMALL, [Named(entry_id, "here:1") for entry_id in named]))

    assert len(problems) == 1
    assert complaint in problems[0]
