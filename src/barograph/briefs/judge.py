"""Where the evidence of a reading becomes briefs."""

import logging
from collections.abc import Sequence

from barograph.briefs.macro_rules import MACRO_RULES
from barograph.briefs.records import Brief, Draft, E, Rule, cooldown_key, write_brief
from barograph.briefs.rules import RULES
from barograph.briefs.store import last_by_cooldown
from barograph.kit.database import Transaction
from barograph.macro.evidence import MacroEvidence
from barograph.markets.evidence import Evidence

log = logging.getLogger(__name__)


class BriefDesk:
    """Lets every rule speak, and keeps what is not stored yet."""

    def __init__(self) -> None:
        self._spoken: dict[str, int] = {}
        self._waiting: list[Brief] = []

    async def load(self, tx: Transaction) -> None:
        """Take up when each rule last spoke."""
        self._spoken = await last_by_cooldown(tx)

    def conclude(self, evidence: Evidence, macro: MacroEvidence) -> list[Brief]:
        """Write the briefs of a reading; those that could not be stored before come along."""
        for market_rule in RULES:
            self._hear(market_rule, evidence, evidence)
        for macro_rule in MACRO_RULES:
            self._hear(macro_rule, macro, evidence)
        return list(self._waiting)

    def written(self, briefs: Sequence[Brief]) -> None:
        """Forget what is safely stored."""
        del self._waiting[: len(briefs)]

    def _hear(self, rule: Rule[E], seen: E, evidence: Evidence) -> None:
        try:
            for draft in rule.drafts(seen):
                # Asked before it is written: what lasts is found anew at every reading.
                if not self._is_silent(rule, draft, evidence.reading.as_of):
                    self._take(write_brief(rule.text, draft, evidence))
        except Exception:
            # A mistake in a rule must not stop measuring, nor the other rules.
            log.exception("rule fails", extra={"rule": rule.id})

    def _is_silent(self, rule: Rule[E], draft: Draft, at: int) -> bool:
        """Whether the rule spoke about this subject so shortly before that it may not again."""
        last = self._spoken.get(cooldown_key(rule.id, draft))
        return last is not None and abs(at - last) < rule.cooldown

    def _take(self, brief: Brief) -> None:
        self._spoken[brief.cooldown_key] = brief.published_at
        self._waiting.append(brief)
