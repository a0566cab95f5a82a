"""The manifest, the contract's text and the tests say the same thing.

Each check is a function from texts to a list of problems, so that the checks themselves are tested
on small texts below. Test sources are read with ``ast`` and never imported.
"""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parent

STATES = ("tested", "decision", "not-built-yet")
ID_FORM = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)+")


@dataclass(frozen=True)
class Sentence:
    """A sentence or table row of the contract; the line number is for messages."""

    line: int
    text: str


@dataclass(frozen=True)
class Entry:
    """A line of the manifest."""

    section: str
    id: str
    quote: str = ""
    state: str = ""
    note: str = ""


@dataclass(frozen=True)
class Named:
    """An id that a test names, and where."""

    id: str
    where: str


def contract_sections(text: str) -> dict[str, list[Sentence]]:
    """Split the contract by heading into sentences; text before the first heading is under "".

    Headings, blank lines, table header rows and table separator rows state nothing and are left
    out. A list marker is not part of the sentence that follows it.
    """
    sections: dict[str, list[Sentence]] = {"": []}
    current = sections[""]
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        heading = re.match(r"#+ (.+)", line)
        if heading:
            current = sections.setdefault(heading[1].strip(), [])
        elif (
            line.strip()
            and not _is_separator(line)
            and not _is_separator("".join(lines[number:][:1]))
        ):
            body = re.sub(r"^\s*(\d+\.|-) ", "", line).strip()
            current.extend(Sentence(number, part) for part in re.split(r"(?<=\.) +", body))
    return {heading: found for heading, found in sections.items() if found}


def _is_separator(line: str) -> bool:
    return re.fullmatch(r"\|(\s*:?-+:?\s*\|)+\s*", line) is not None


def read_manifest(text: str) -> list[Entry]:
    """Read the manifest.

    Raises:
        TypeError: an entry has a member that is not ``quote``, ``state`` or ``note``.
    """
    return [
        Entry(section, entry_id, **members)
        for section, entries in tomllib.loads(text).items()
        for entry_id, members in entries.items()
    ]


def entry_problems(entries: Iterable[Entry]) -> Iterator[str]:
    """What is wrong with the entries themselves."""
    entries = list(entries)
    for entry_id, count in Counter(entry.id for entry in entries).items():
        if count > 1:
            yield f"{entry_id}: used {count} times; give each entry an id of its own"
    for entry in entries:
        if not ID_FORM.fullmatch(entry.id):
            yield f"{entry.id}: write the id as lower-case words, like derivatives.symbol.pattern"
        if entry.state not in STATES:
            yield f"{entry.id}: state {entry.state!r}; use one of {', '.join(STATES)}"
        elif entry.state != "tested" and not entry.note.strip():
            yield f"{entry.id}: add a note: what was decided, or which capability will hold it"


def quote_problems(entries: Iterable[Entry], sections: dict[str, list[Sentence]]) -> Iterator[str]:
    """Quotes that are not word for word in one sentence of their section, in one place."""
    for entry in entries:
        if entry.section not in sections:
            yield f"{entry.id}: no heading {entry.section!r} in contract.md; copy it exactly"
            continue
        places = sum(s.text.count(entry.quote) for s in sections[entry.section] if entry.quote)
        if places != 1:
            yield (
                f"{entry.id}: quote found {places} times under {entry.section!r}; quote one "
                "sentence, one row or a part of it, word for word and long enough to be unique: "
                f"{entry.quote!r}"
            )


def coverage_problems(
    entries: Iterable[Entry], sections: dict[str, list[Sentence]]
) -> Iterator[str]:
    """Sentences with a word that no quote of their section covers."""
    quotes: dict[str, list[str]] = {}
    for entry in entries:
        quotes.setdefault(entry.section, []).append(entry.quote)
    for section, sentences in sections.items():
        for sentence in sentences:
            left = _uncovered(sentence.text, quotes.get(section, []))
            if left:
                yield (
                    f"contract.md:{sentence.line}: add an entry under {section!r} "
                    f"that quotes {left!r} of {sentence.text!r}"
                )


def _uncovered(text: str, quotes: list[str]) -> str:
    covered: set[int] = set()
    for quote in quotes:
        start = text.find(quote)
        if quote and start >= 0:
            covered.update(range(start, start + len(quote)))
    left = "".join(" " if at in covered else char for at, char in enumerate(text))
    return " ".join(left.split()) if re.search(r"\w", left) else ""


def named_ids(root: Path) -> tuple[list[Named], list[str]]:
    """The ids that the tests under ``root`` name, and the markers that cannot be read."""
    named: list[Named] = []
    problems: list[str] = []
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
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
    """Ids that a test names and must not, and ids marked tested that no test names."""
    states = {entry.id: entry.state for entry in entries}
    named = list(named)
    for mark in named:
        if mark.id not in states:
            yield f"{mark.where}: unknown id {mark.id!r}; take one from manifest.toml"
        elif states[mark.id] != "tested":
            yield (
                f"{mark.where}: {mark.id!r} is {states[mark.id]!r} in manifest.toml; "
                'set it to "tested", or take it off this test'
            )
    tested = {entry_id for entry_id, state in states.items() if state == "tested"}
    for entry_id in sorted(tested - {mark.id for mark in named}):
        yield (
            f'{entry_id}: no test shows it; put @pytest.mark.contract("{entry_id}") on the test '
            'that does, or set its state to "not-built-yet"'
        )


ENTRIES = read_manifest((HERE / "manifest.toml").read_text(encoding="utf-8"))
SECTIONS = contract_sections((HERE / "contract.md").read_text(encoding="utf-8"))


def assert_none(problems: Iterable[str]) -> None:
    listed = list(problems)
    if listed:
        pytest.fail("\n".join(listed), pytrace=False)


def test_every_entry_has_its_own_id_and_a_known_state() -> None:
    assert_none(entry_problems(ENTRIES))


def test_every_quote_is_the_contracts_own_words() -> None:
    assert_none(quote_problems(ENTRIES, SECTIONS))


def test_every_sentence_of_the_contract_is_in_the_manifest() -> None:
    assert_none(coverage_problems(ENTRIES, SECTIONS))


def test_every_marker_names_its_ids_literally_on_a_test() -> None:
    assert_none(named_ids(TESTS)[1])


def test_every_tested_id_has_a_test_and_every_named_id_is_tested() -> None:
    assert_none(marker_problems(ENTRIES, named_ids(TESTS)[0]))


# The checks themselves, on small texts.

SMALL_CONTRACT = """\
# Title

First fact. Second fact, and a third.

## Table

| Field | Type |
|---|---|
| name | string |

1. A rule.
- A promise.
"""


def small_entries(*quotes: tuple[str, str]) -> list[Entry]:
    return [Entry(s, f"small.n{n}", q, "tested") for n, (s, q) in enumerate(quotes)]


ALL_OF_IT = small_entries(
    ("Title", "First fact."),
    ("Title", "Second fact"),
    ("Title", "and a third."),
    ("Table", "| name | string |"),
    ("Table", "A rule."),
    ("Table", "A promise."),
)


def test_a_contract_is_read_as_sentences_and_rows_without_headings_and_table_headers() -> None:
    sections = contract_sections(SMALL_CONTRACT)

    assert {name: [s.text for s in found] for name, found in sections.items()} == {
        "Title": ["First fact.", "Second fact, and a third."],
        "Table": ["| name | string |", "A rule.", "A promise."],
    }
    assert sections["Table"][0].line == 9


def test_text_before_the_first_heading_is_not_lost() -> None:
    problems = list(coverage_problems([], contract_sections("A fact.\n")))

    assert len(problems) == 1


def test_a_complete_manifest_has_no_problem() -> None:
    sections = contract_sections(SMALL_CONTRACT)

    assert_none(entry_problems(ALL_OF_IT))
    assert_none(quote_problems(ALL_OF_IT, sections))
    assert_none(coverage_problems(ALL_OF_IT, sections))


@pytest.mark.parametrize("left_out", range(len(ALL_OF_IT)))
def test_each_uncovered_sentence_row_or_part_is_found(left_out: int) -> None:
    kept = [entry for at, entry in enumerate(ALL_OF_IT) if at != left_out]

    problems = list(coverage_problems(kept, contract_sections(SMALL_CONTRACT)))

    assert len(problems) == 1
    assert ALL_OF_IT[left_out].quote.strip("| .") in problems[0]


@pytest.mark.parametrize(
    ("section", "quote", "complaint"),
    [
        pytest.param("Title", "The first fact.", "found 0 times", id="paraphrased"),
        pytest.param("Title", "first fact.", "found 0 times", id="other case"),
        pytest.param("Title", "First fact. Second fact", "found 0 times", id="two sentences"),
        pytest.param("Title", "fact", "found 2 times", id="ambiguous"),
        pytest.param("Title", "", "found 0 times", id="empty"),
        pytest.param("Title", "A rule.", "found 0 times", id="another section's words"),
        pytest.param("Titel", "First fact.", "no heading", id="unknown section"),
    ],
)
def test_a_quote_that_is_not_word_for_word_is_found(
    section: str, quote: str, complaint: str
) -> None:
    entries = small_entries((section, quote))

    problems = list(quote_problems(entries, contract_sections(SMALL_CONTRACT)))

    assert len(problems) == 1
    assert complaint in problems[0]


@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        ([Entry("T", "a.b", "q", "tested"), Entry("U", "a.b", "r", "tested")], "used 2 times"),
        ([Entry("T", "A b", "q", "tested")], "lower-case words"),
        ([Entry("T", "a.b", "q", "done")], "use one of"),
        ([Entry("T", "a.b", "q", "decision")], "add a note"),
        ([Entry("T", "a.b", "q", "not-built-yet", " ")], "add a note"),
    ],
)
def test_an_ill_formed_entry_is_found(entries: list[Entry], complaint: str) -> None:
    problems = list(entry_problems(entries))

    assert len(problems) == 1
    assert complaint in problems[0]


def test_an_entry_with_an_unknown_member_is_refused() -> None:
    with pytest.raises(TypeError, match="satte"):
        read_manifest('[Title]\n"a.b" = { quote = "q", satte = "tested" }\n')


MARKED = """\
import pytest

pytestmark = [pytest.mark.contract("on.module")]
CASES = [pytest.param(1, marks=pytest.mark.contract("on.case"))]

@pytest.mark.contract("on.function", "second.id")
def test_function(): ...

@pytest.mark.contract("on.class")
class TestClass:
    pytestmark = pytest.mark.contract("in.class")

    @pytest.mark.parametrize("n", [pytest.param(1, marks=[pytest.mark.contract("on.param")])])
    async def test_method(self, n): ...
"""


def test_markers_are_found_wherever_pytest_takes_them_from(tmp_path: Path) -> None:
    source = tmp_path / "tests" / "http" / "test_sample.py"
    source.parent.mkdir(parents=True)
    source.write_text(MARKED)

    named, problems = named_ids(tmp_path / "tests")

    assert {mark.id for mark in named} == {
        *("on.module", "on.case", "on.function", "second.id", "on.class", "in.class", "on.param")
    }
    assert Named("on.module", "tests/http/test_sample.py:3") in named
    assert problems == []


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("@pytest.mark.contract(ID)\ndef test_a(): ...", "string literals"),
        ('@pytest.mark.contract(f"a.{b}")\ndef test_a(): ...', "string literals"),
        ('@pytest.mark.contract("a.b", *MORE)\ndef test_a(): ...', "string literals"),
        ('@pytest.mark.contract("a.b", why="so")\ndef test_a(): ...', "string literals"),
        ("@pytest.mark.contract()\ndef test_a(): ...", "string literals"),
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


@pytest.mark.parametrize(
    ("named", "complaint"),
    [
        ([], "a.tested: no test shows it"),
        (["a.tested", "a.typo"], "unknown id 'a.typo'"),
        (["a.tested", "a.later"], "'a.later' is 'not-built-yet'"),
        (["a.tested", "a.choice"], "'a.choice' is 'decision'"),
    ],
)
def test_tests_and_states_that_disagree_are_found(named: list[str], complaint: str) -> None:
    entries = [
        Entry("T", "a.tested", "q", "tested"),
        Entry("T", "a.later", "q", "not-built-yet", "later"),
        Entry("T", "a.choice", "q", "decision", "chosen"),
    ]

    problems = list(marker_problems(entries, [Named(entry_id, "here:1") for entry_id in named]))

    assert len(problems) == 1
    assert complaint in problems[0]


def test_agreeing_tests_and_states_have_no_problem() -> None:
    entries = [Entry("T", "a.tested", "q", "tested")]

    assert_none(marker_problems(entries, [Named("a.tested", "here:1")]))
