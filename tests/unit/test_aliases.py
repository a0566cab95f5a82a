"""What people call a coin finds its contract."""

import pytest

from barograph.markets.symbols import NAMES, find_contract, index_of, names_of
from support.markets import BTC, ETH, PEPE, changed, reading

SHIB = changed(PEPE, contract="SHIB1000USDT", base="SHIB1000")
MOG = changed(PEPE, contract="1000000MOGUSDT", base="1000000MOG")
SMALL_MOG = changed(MOG, contract="1000MOGUSDT", base="1000MOG", open_interest_usd=None)
LIFE = changed(PEPE, contract="币安人生USDT", base="币安人生")
INDEX = index_of(reading(contracts=(SMALL_MOG, BTC, ETH, PEPE, SHIB, MOG, LIFE)))


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("btc", "BTC"),
        ("BTCUSDT", "BTC"),
        ("bitcoin", "BTC"),
        ("PEPE", "1000PEPE"),
        ("pepeusdt", "1000PEPE"),
        ("shib", "SHIB1000"),
        ("Shiba-Inu", "SHIB1000"),
        ("shiba inu", "SHIB1000"),
        ("mog", "1000000MOG"),
        ("1000mog", "1000MOG"),
        ("币安人生", "币安人生"),
        *((text, None) for text in ("", "0PEPE", "1000", "\u017fhib", "solana", "PE", "USDT")),
    ],
)
def test_a_name_finds_the_contract_that_people_mean(text: str, base: str | None) -> None:
    found = find_contract(INDEX, text)

    assert (None if found is None else found.base) == base


def test_an_exact_symbol_wins_over_a_multiplier_contract_and_a_name() -> None:
    exact = [changed(PEPE, contract=f"{base}USDT", base=base) for base in ("PEPE", "BITCOIN")]
    index = index_of(reading(contracts=(BTC, PEPE, *exact)))

    assert [find_contract(index, each.base) for each in exact] == exact


def test_a_thousand_coins_have_two_names() -> None:
    thousand = changed(PEPE, contract="kPEPE", base="kPEPE", coin="PEPE", multiplier=1000)
    kava = changed(BTC, contract="KAVA", base="KAVA")
    index = index_of(reading(contracts=(thousand, kava)))

    assert [find_contract(index, each) for each in ("1000PEPE", "pepe")] == [thousand] * 2
    assert find_contract(index, "1000AVA") is None


def test_every_name_leads_to_the_contract_that_lists_it() -> None:
    for name, symbol in NAMES.items():
        listed = changed(PEPE, contract=f"1000{symbol}USDT", base=f"1000{symbol}")
        assert find_contract(index_of(reading(contracts=(listed,))), name) is listed
        assert name in names_of(listed)
