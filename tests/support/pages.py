"""The pages of a service, requested like a browser and parsed strictly."""

import asyncio
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2

from barograph.board.feeds import Publication
from barograph.briefs.records import Brief
from barograph.markets.view import PERPETUALS
from barograph.signals.methods import METHODS
from barograph.signals.records import SIGNALS, Signal, SignalChange, Signals
from support.clock import START
from support.markets import reading
from support.service import BASE_URL, PEER, Service

MAIL = {"smtp_url": "smtp://127.0.0.1:1", "mail_from": "barograph@example.com"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
FORM = {"content-type": "application/x-www-form-urlencoded"}
NOTE = Brief(
    slug="2026-11-06-note",
    published_at=START - 60_000,
    category="note",
    headline="Fees & <b>spreads</b>",
    coins=("BTC", "ETH"),
    summary="A summary with <i>marks</i>.",
    body="# First\n\nText with <script>alert(1)</script> and [a link](https://example.com/).",
    source="test venue",
    rule="operator",
    window_start=START - 3_600_000,
    window_end=START,
    inputs="{}",
    inputs_digest="ab" * 32,
    cooldown_key="operator:note",
)
FOUND = NOTE._replace(
    slug="2026-11-06-funding",
    category="funding",
    rule="funding-extreme",
    headline="Funding is high",
    inputs_digest="cd" * 32,
)

DATA_BLOCK = "application/ld+json"
_TABLE_PARTS = {"table", "thead", "tbody", "tr", "th", "td"}
_VOID = {"meta", "link", "img", "input", "br", "hr", "wbr"}


class SiteService:
    """The pages of a service with a manual clock."""

    def __init__(self, folder: Path, *, mails: bool = True, **settings: Any) -> None:
        given: dict[str, Any] = {**(MAIL if mails else {}), **settings}
        self.service = Service(folder, **given)
        self.clock = self.service.clock
        self.keys = self.service.keys
        self.service.refresh()

    def ask(
        self, path: str, method: str = "GET", body: bytes | str = b"", **headers: str
    ) -> httpx2.Response:
        names = {name.replace("_", "-"): value for name, value in headers.items()}

        async def call() -> httpx2.Response:
            transport = httpx2.ASGITransport(
                app=self.service.app, client=(PEER, 4_000), raise_app_exceptions=False
            )
            async with httpx2.AsyncClient(transport=transport, base_url=BASE_URL) as client:
                return await client.request(method, path, content=body, headers=names)

        return asyncio.run(call())

    def look(self, path: str) -> "Checked":
        """A page that must exist."""
        answer = self.ask(path)
        assert answer.status_code == 200, path
        return Checked(answer)

    def register(self, email: str) -> httpx2.Response:
        return self.ask("/keys", "POST", str(httpx2.QueryParams({"email": email})), **FORM)

    def mailed_path(self) -> str:
        mails = self.service.rows("SELECT body FROM outbox ORDER BY created_at DESC")
        return str(re.findall(rf"{BASE_URL}(/keys/[\w-]+)", mails[0][0])[0])

    def judged(self, label: str = "calm & quiet", at: int = START) -> None:
        """Publish the same label for all signals."""
        signals = [
            Signal(method.key, method.name, label, f"value of {method.key}", at)
            for method in METHODS
        ]
        record = Signals(at, "test venue", tuple(signals))

        market = Publication.of(PERPETUALS, reading(at))
        self.service.put(Publication.of(SIGNALS, record), market)

    def record_changes(self, *changes: SignalChange) -> None:
        """Record changes of labels as the collector does."""
        for change in changes:
            self.service.execute(
                "INSERT INTO signal_changes (key, at, label, value) VALUES ($1, $2, $3, $4)",
                *change[:4],
            )

    def rename(self, old: str, new: str) -> None:
        """Rename a table, or restore its name."""
        self.service.execute(f"ALTER TABLE {old} RENAME TO {new}")

    def close(self) -> None:
        self.service.close()


class Checked(HTMLParser):
    """A page, parsed strictly: tags are closed in order, and only our scripts run."""

    def __init__(self, response: httpx2.Response) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.labels: list[str | None] = []
        self.inputs: list[str | None] = []
        self.headings: list[int] = []
        self.copied: list[str] = []
        self.relations: dict[str, str] = {}
        self.words: list[str] = []
        self.tables: list[list[list[str]]] = []
        """The cells of each row of each table."""

        assert response.headers["content-type"] == "text/html; charset=utf-8"
        assert response.headers["content-security-policy"] == POLICY
        assert response.text.startswith('<!doctype html>\n<html lang="en">\n')
        self.feed(response.text)
        self.close()
        self._check()

    def _check(self) -> None:
        assert self.open == []
        assert len(set(self.ids)) == len(self.ids)
        assert set(self.inputs) <= set(self.labels)
        assert set(self.copied) <= set(self.ids)
        assert self.headings[0] == 1
        assert self.headings.count(1) == 1
        steps = zip(self.headings, self.headings[1:], strict=False)
        assert all(later <= earlier + 1 for earlier, later in steps)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        assert len(given) == len(attributes)
        assert tag not in {"style", "iframe", "object", "base"}
        assert tag not in _TABLE_PARTS or "role" not in given
        assert not any(name.startswith("on") or name == "style" for name in given)
        if tag not in _VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        self._look(tag, given)
        self._collect(tag)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        self.targets += [str(given[name]) for name in ("href", "src", "action") if name in given]

    def _look(self, tag: str, given: dict[str, str | None]) -> None:
        if tag == "script" and given.get("type") != DATA_BLOCK:
            assert str(given["src"]).startswith("/static/")
        if tag == "img":
            assert given["alt"]
        if tag == "th":
            assert given["scope"] in {"row", "col", "colgroup"}
        if tag == "label":
            self.labels.append(given["for"])
        if tag == "input" and given.get("type") != "hidden":
            self.inputs.append(given["id"])
        if "data-copy" in given:
            assert "hidden" in given
            self.copied.append(str(given["data-copy"]))
        if tag == "link" or "rel" in given:
            self.relations[str(given["rel"])] = str(given["href"])

    def _collect(self, tag: str) -> None:
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in {"th", "td"}:
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag in {"dt", "dd", "td", "th"}:
            self.words.append(" ")

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["script"]:
            self.words.append(data)
        if {"th", "td"} & set(self.open):
            self.tables[-1][-1][-1] += data

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())
