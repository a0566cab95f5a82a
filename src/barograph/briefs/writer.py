"""Runs the rules on the evidence of a reading and writes their briefs."""

import logging
from collections.abc import Sequence

from barograph.briefs.records import Brief, E, Rule, cooldown_key, write_brief
from barograph.briefs.rules import MACRO_RULES, MARKET_RULES
from barograph.briefs.store import last_by_cooldown
from barograph.kit.database import Transaction
from barograph.macro.evidence import MacroEvidence
from barograph.markets.evidence import MarketEvidence

log = logging.getLogger(__name__)


class BriefWriter:
    """Runs every rule, and keeps briefs until they are stored."""

    def __init__(self) -> None:
        self._published_at: dict[str, int] = {}
        self._waiting: list[Brief] = []

    async def load(self, tx: Transaction) -> None:
        """Load when each rule last wrote about each subject."""
        self._published_at = await last_by_cooldown(tx)

    def conclude(self, evidence: MarketEvidence, macro: MacroEvidence) -> list[Brief]:
        """Write the briefs of a reading; includes earlier ones that could not be stored."""
        for market_rule in MARKET_RULES:
            self._run(market_rule, evidence, evidence)
        for macro_rule in MACRO_RULES:
            self._run(macro_rule, macro, evidence)
        return list(self._waiting)

    def written(self, briefs: Sequence[Brief]) -> None:
        """Forget briefs that are stored."""
        del self._waiting[: len(briefs)]

    def _run(self, rule: Rule[E], seen: E, evidence: MarketEvidence) -> None:
        at = evidence.reading.as_of
        try:
            for draft in rule.drafts(seen):
                # Checked before writing: a lasting condition is drafted again at every reading.
                last = self._published_at.get(cooldown_key(rule.id, draft))
                if last is None or abs(at - last) >= rule.cooldown:
                    brief = write_brief(rule, draft, evidence)
                    self._published_at[brief.cooldown_key] = brief.published_at
                    self._waiting.append(brief)
        except Exception:
            # A bug in one rule must not stop the measuring or the other rules.
            log.exception("rule fails", extra={"rule": rule.id})
