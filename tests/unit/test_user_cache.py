"""What is remembered of an identity provider's verdict about a token."""

import asyncio

import pytest

from barograph.errors import BarographError
from barograph.identity.provider import Identity, IdentityRefused, IdentityUnavailable
from barograph.identity.token_verifier import REFUSAL_SECONDS, Token, UserCache
from support.clock import START, HandClock

HOUR = 3_600_000


class Asked:
    """Verdicts on a clock held by hand; counts the questions that come through."""

    def __init__(self, seconds: float = 60, limit: int = 10_000) -> None:
        self.clock = HandClock()
        self.cache = UserCache(self.clock, seconds, limit)
        self.questions: list[str] = []
        self.error: BarographError | None = None

    def judge(self, text: str = "token", expires_at: int = START + HOUR) -> str:
        try:
            return asyncio.run(self.work(text, expires_at)).user_id
        except (IdentityRefused, IdentityUnavailable) as error:
            return type(error).__name__

    async def work(self, text: str, expires_at: int) -> Identity:
        async def ask() -> Identity:
            self.questions.append(text)
            await asyncio.sleep(0)
            if self.error is not None:
                raise self.error
            return Identity(f"user {text[0]}")

        return await self.cache.check(text, Token("subject", expires_at, {}), ask)


@pytest.mark.parametrize(("life", "counts_for"), [(3_600, 60.0), (10, 10.0)])
def test_a_verdict_expires_with_its_token_at_the_latest(life: int, counts_for: float) -> None:
    asked = Asked(seconds=60)
    for pause, questions in ((0, 1), (counts_for - 0.1, 1), (0.1, 2)):
        asked.clock.pass_seconds(pause)
        assert asked.judge(expires_at=START + life * 1_000) == "user t"
        assert len(asked.questions) == questions


def test_a_verdict_does_not_live_on_after_the_clock_was_set_back() -> None:
    asked = Asked(seconds=60)
    asked.judge()
    asked.clock.pass_seconds(-0.001)
    asked.error = IdentityRefused("banned")
    assert asked.judge() == "IdentityRefused"
    assert len(asked.questions) == 2
    asked.clock.pass_seconds(-3600)
    asked.error = None
    assert asked.judge() == "user t"
    assert len(asked.questions) == 3


def test_zero_seconds_remember_nothing() -> None:
    asked = Asked(seconds=0)
    for _ in range(3):
        asked.judge()
    asked.error = IdentityRefused("no")
    assert [asked.judge() for _ in range(3)] == ["IdentityRefused"] * 3
    assert len(asked.questions) == 6


def test_a_refusal_counts_for_a_few_seconds_and_an_outage_not_at_all() -> None:
    asked = Asked()
    asked.error = IdentityRefused("unconfirmed")
    assert [asked.judge() for _ in range(3)] == ["IdentityRefused"] * 3
    assert len(asked.questions) == 1
    asked.clock.pass_seconds(REFUSAL_SECONDS)
    asked.error = IdentityUnavailable("down")
    assert [asked.judge() for _ in range(3)] == ["IdentityUnavailable"] * 3
    assert len(asked.questions) == 4
    asked.error = None
    assert asked.judge() == "user t"


def test_each_token_has_its_own_verdict_and_the_oldest_goes_first() -> None:
    asked = Asked(limit=3)
    names = ["a", "b", "c", "d"]
    assert [asked.judge(name) for name in names] == [f"user {name}" for name in names]
    for name in ("b", "c", "d"):
        asked.judge(name)
    assert asked.questions == names
    asked.judge("a")
    assert asked.questions == [*names, "a"]


@pytest.mark.parametrize("error", [None, IdentityRefused("no"), IdentityUnavailable("down")])
async def test_requests_with_one_token_ask_once(error: BarographError | None) -> None:
    asked = Asked(seconds=0)
    asked.error = error

    tasks = [asked.work("token", START + HOUR) for _ in range(30)]
    verdicts = await asyncio.gather(*tasks, return_exceptions=True)

    expected = Identity("user t") if error is None else error
    assert [repr(verdict) for verdict in verdicts] == [repr(expected)] * 30
    assert asked.questions == ["token"]


def test_a_token_itself_is_not_kept() -> None:
    asked = Asked()
    asked.judge("very.secret.token")
    assert "secret" not in repr(vars(asked.cache))
