"""The settings of payments: what would let somebody else decide about money is refused."""

import pytest

from barograph.errors import ConfigurationError
from barograph.settings import PREFIX, Settings

WALLET = "0x" + "a5" * 20
PAID = {
    "x402_facilitator_url": "https://pay.example/x402",
    "x402_asset": WALLET,
    "x402_pay_to": WALLET,
}


def read(**values: str) -> Settings:
    given = PAID | values
    return Settings.from_environment({PREFIX + name.upper(): v for name, v in given.items()})


def refusal(**values: str) -> str:
    with pytest.raises(ConfigurationError) as refused:
        read(**values)
    return str(refused.value)


@pytest.mark.parametrize("name", ["x402_facilitator_url", "x402_chain_url"])
def test_who_decides_about_money_has_tls_or_is_on_this_machine(name: str) -> None:
    for url in ("https://node.example/v2/key", "http://127.0.0.1:9", "http://[::1]:9/rpc"):
        assert getattr(read(**{name: url}), name) == url
    for url in (
        *("http://node.example", "http://10.0.0.1", "http://localhost.example"),
        *("http://0.0.0.0:9", "ftp://127.0.0.1", "https://node.example/"),
        "https://node.example?key=1",
    ):
        assert f"{PREFIX}{name.upper()}: an https:// address" in refusal(**{name: url}), url


def test_without_an_address_nothing_is_asked() -> None:
    assert read(x402_chain_url="").x402_chain_url == ""
    assert not Settings.from_environment({}).takes_payments


def test_the_facilitator_gets_a_fixed_token_or_signed_requests_but_not_both() -> None:
    key = {"x402_cdp_key_id": "id", "x402_cdp_key_secret": "secret"}
    assert read(**key).x402_cdp_key_secret.get_secret_value() == "secret"
    for name, value in key.items():
        assert "are needed together" in refusal(**{name: value})
    assert "can't both be set" in refusal(**key, x402_facilitator_token="token")


def test_a_stance_that_costs_as_much_as_feed_is_refused() -> None:
    assert "must differ in price" in refusal(stance_price_usd="25.00")
    assert "must differ in price" in refusal(feed_price_usd="0.25")
    assert read(stance_price_usd="24.99").takes_payments
