"""Runs the rules on the evidence of a reading and writes their briefs."""

import logging
from collections.abc import Sequence

from barograph.briefs.daily_wrap import DAILY_WRAP, wrap_key
from barograph.briefs.records import Brief, Draft, E, Rule, Written, cooldown_key
from barograph.briefs.rules import MACRO_RULES, MARKET_RULES
from barograph.briefs.store import written_by_key
from barograph.briefs.texts import what_followed, write_brief
from barograph.kit.database import Transaction
from barograph.kit.timestamps import DAY
from barograph.macro.evidence import MacroEvidence
from barograph.markets.evidence import MarketEvidence

log = logging.getLogger(__name__)

UPDATED_FOR = 2 * DAY
"""For so long after its first text, the same rule and subject update a brief."""

WEEK = 7 * DAY
"""No rule has a longer cooldown."""


class BriefWriter:
    """Runs every rule, and keeps briefs until they are stored."""

    def __init__(self) -> None:
        self._written: dict[str, list[Written]] = {}
        self._waiting: list[Brief] = []

    async def load(self, tx: Transaction) -> None:
        """Load what each rule wrote about each subject."""
        self._written = await written_by_key(tx)

    def conclude(self, evidence: MarketEvidence, macro: MacroEvidence) -> list[Brief]:
        """Write the briefs of a reading; includes earlier ones that could not be stored."""
        for market_rule in MARKET_RULES:
            self._run(market_rule, evidence, evidence)
        for macro_rule in MACRO_RULES:
            self._run(macro_rule, macro, evidence)
        if wrap_key(evidence.reading.as_of) not in self._written:
            self._run(DAILY_WRAP, evidence, evidence)
        return list(self._waiting)

    def written(self, briefs: Sequence[Brief]) -> None:
        """Forget briefs that are stored."""
        del self._waiting[: len(briefs)]

    def _run(self, rule: Rule[E], seen: E, evidence: MarketEvidence) -> None:
        at = evidence.reading.as_of
        try:
            for draft in rule.drafts(seen):
                # Checked before writing: a lasting condition is drafted again at every reading.
                past = self._written.get(cooldown_key(rule.id, draft), [])
                if not past or abs(at - past[-1].published_at) >= rule.cooldown:
                    self._write(rule, draft, evidence, past)
        except Exception:
            # A bug in one rule must not stop the measuring or the other rules.
            log.exception("rule fails", extra={"rule": rule.id})

    def _write(
        self, rule: Rule[E], draft: Draft, evidence: MarketEvidence, past: Sequence[Written]
    ) -> None:
        at = evidence.reading.as_of
        earlier = [each for each in past if each.published_at <= at]
        week = [each for each in earlier if each.published_at > at - WEEK]
        # A rule with a cooldown doesn't write every time, so its texts are no count.
        times = 1 if rule.cooldown else 1 + len(week)
        starts = [] if rule.category == "data-quality" else [each.published_at for each in earlier]
        followed = what_followed(draft.subject, starts, evidence)
        brief = write_brief(rule, draft, evidence, times, followed)
        last = past[-1] if past else None
        if last is not None and last.published_at <= at < last.first_published_at + UPDATED_FOR:
            brief = brief._replace(
                slug=last.slug,
                version=last.version + 1,
                first_published_at=last.first_published_at,
            )
        written = Written(brief.slug, brief.version, brief.first_at, at)
        self._written[brief.cooldown_key] = [*earlier, written]
        self._waiting.append(brief)
