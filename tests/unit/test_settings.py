"""Every setting is described, comes from the environment and refuses what cannot work."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pydantic import ValidationError

from barograph import __version__
from barograph.errors import ConfigurationError
from barograph.settings import IBIT_URL, PREFIX, REMOVED, Settings
from barograph.upstream.facilitator import SETTLE_SECONDS
from barograph.venues.registry import VENUES

NAMES = sorted(Settings.model_fields)
FLOATS = [name for name in NAMES if Settings.model_fields[name].annotation is float]


def read(**values: str) -> Settings:
    return Settings.from_environment({PREFIX + name.upper(): v for name, v in values.items()})


def refusal(**values: str) -> str:
    with pytest.raises(ConfigurationError) as refused:
        read(**values)
    return str(refused.value)


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_has_a_default_a_variable_and_a_sentence(name: str) -> None:
    field = Settings.model_fields[name]

    assert field.description is not None
    assert field.description[0].isupper()
    assert field.description.endswith(".")
    assert not field.is_required()
    defaults = Settings.model_validate({})
    assert PREFIX + name.upper() in defaults.to_environment()
    assert Settings.from_environment({}) == defaults


def test_variables_of_other_programs_are_not_looked_at() -> None:
    assert Settings.from_environment({"PORT": "1", "XBAROGRAPH_PORT": "2"}).port == 8080


def test_values_are_read_as_their_types() -> None:
    settings = read(port="9000", poll_seconds="2.5", data="/srv/baro", log_level="debug")

    assert (settings.port, settings.poll_seconds) == (9000, 2.5)
    assert settings.data == Path("/srv/baro")
    assert settings.database_path == Path("/srv/baro/barograph.sqlite3")


def test_an_address_of_dated_etf_files_is_refused_with_the_one_that_works() -> None:
    issuer = "https://issuer.example"
    for address in (f"{issuer}/f.csv?asOfDate=20260102", f"{issuer}/{{date}}.csv", "f.csv"):
        assert IBIT_URL in refusal(etf_url=address)
    assert read(etf_url="https://issuer.example/f.csv?type=a&b").etf_url.endswith("a&b")


def test_the_file_of_one_fund_is_not_taken_for_another() -> None:
    assert "holdings file of FBTC" in refusal(etf_fund="FBTC")
    assert read(etf_fund="FBTC", etf_url="https://issuer.example/fbtc.csv").etf_fund == "FBTC"


def test_requests_to_publishers_say_who_asks() -> None:
    assert read(base_url="https://barograph.example").user_agent == (
        f"barograph/{__version__} (+https://barograph.example)"
    )
    told = read(contact="mailto:ops@example.com").user_agent
    assert told == f"barograph/{__version__} (+ops@example.com)"


some_settings: dict[str, SearchStrategy[Any]] = {
    "host": st.sampled_from(["127.0.0.1", "0.0.0.0", "::1"]),
    "port": st.integers(1, 65535),
    "workers": st.integers(1, 64),
    "base_url": st.sampled_from(["", "https://barograph.example", "http://10.0.0.1:81/sub"]),
    "data": st.sampled_from(["data", "/srv/a folder", "../x"]),
    "log_level": st.sampled_from(["debug", "info", "warning", "error"]),
    "poll_seconds": st.floats(0.001, 20),
    "exchange_source": st.text("abc é=,'\"", min_size=1),
}


@given(st.fixed_dictionaries({}, optional=some_settings))
def test_settings_survive_the_way_through_the_environment(values: dict[str, Any]) -> None:
    settings = Settings.model_validate(values)

    assert Settings.from_environment(settings.to_environment()) == settings


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("prot", "did you mean BAROGRAPH_PORT?"),
        ("poll_second", "did you mean BAROGRAPH_POLL_SECONDS?"),
        ("exchange_url", "did you mean BAROGRAPH_EXCHANGE_REST_URL?"),
        ("zzzzzzzz", "is not a setting (`barograph settings` lists them all)"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(name: str, hint: str) -> None:
    said = refusal(**{name: "1"})

    assert said.startswith(f"BAROGRAPH_{name.upper()} is not a setting")
    assert hint in said


@pytest.mark.outcome(
    "A setting that earlier versions had is set",
    "The service starts and logs a warning with the value that is fixed now.",
)
def test_a_removed_setting_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert read(lease_seconds="60", workers="2") == read(workers="2")
    assert caplog.messages == [
        "BAROGRAPH_LEASE_SECONDS is no longer a setting: it is fixed at 15; remove it"
    ]
    assert "is not a setting" in refusal(lease_second="60")
    assert not REMOVED.keys() & Settings.model_fields.keys()
    assert len(Settings.model_fields) <= 60


@pytest.mark.parametrize(
    ("rest", "stream"),
    [
        ("https://api.bybit.com", "wss://stream.bybit.com/v5/public/linear"),
        ("https://api.bybit.nl", "wss://stream.bybit.com/v5/public/linear"),
        ("https://api.manepa.jp", "wss://stream.manepa.jp/v5/public/linear"),
        ("http://127.0.0.1:81", "ws://127.0.0.1:81/v5/public/linear"),
    ],
)
def test_the_websocket_follows_the_regional_host(rest: str, stream: str) -> None:
    assert VENUES["bybit"].stream_url(read(exchange_rest_url=rest).exchange_rest_url) == stream


def test_other_venues_have_their_address_by_name() -> None:
    settings = read(venue_urls="gate=https://gate.example,aster=http://127.0.0.1:81/x")
    assert [settings.venue_url(name) for name in ("gate", "aster", "other", "binance")] == [
        *("https://gate.example", "http://127.0.0.1:81/x", "", "https://fapi.binance.com")
    ]
    assert "names and addresses" in refusal(venue_urls="https://gate.example")


IMPOSSIBLE: dict[str, Sequence[str]] = {
    "host": ["localhost"],
    "port": ["0", "65536", "eighty", ""],
    "workers": ["0", "1.5"],
    "data": [""],
    "log_level": ["loud", "info\n"],
    "poll_seconds": ["0", "-1", "61"],
    "feed_max_age_seconds": ["0"],
    "base_url": [
        *("barograph.example", "https://barograph.example/", "ftp://barograph.example"),
        *("http://x y", "http://x?z", "http://x#z", "http://", "x", "/"),
    ],
    "exchange_rest_url": ["", "api.exchange.example"],
    "exchange_source": [""],
    "rates_url": [
        "https://a.example,b.example",
        "https://a.example,https://b.example,https://c.example",
    ],
}
NOT_FINITE = dict.fromkeys(FLOATS, ("nan", "inf", "-inf"))


@pytest.mark.parametrize("values", [IMPOSSIBLE, NOT_FINITE], ids=["impossible", "not finite"])
def test_a_value_that_cannot_work_is_refused_by_name(values: dict[str, Sequence[str]]) -> None:
    for name, refused in values.items():
        for value in refused:
            said = refusal(**{"workers": "0", name: value})
            assert f"BAROGRAPH_{name.upper()}: " in said, value
            assert "BAROGRAPH_WORKERS: " in said  # all are named at once


@pytest.mark.parametrize(
    ("host", "base_url"),
    [
        ("127.0.0.1", "http://127.0.0.1:9000"),
        ("::1", "http://[::1]:9000"),
        ("0.0.0.0", "http://127.0.0.1:9000"),
        ("::", "http://[::1]:9000"),
    ],
)
def test_the_base_address_is_the_bound_one_unless_set(host: str, base_url: str) -> None:
    assert read(host=host, port="9000").base_url == base_url
    assert read(host=host, base_url="https://b.example").base_url == "https://b.example"


@pytest.mark.parametrize(
    ("rates", "treasury", "nyfed"),
    [
        ("https://a.example,https://b.example", "https://a.example", "https://b.example"),
        ("http://127.0.0.1:81", "http://127.0.0.1:81", "http://127.0.0.1:81"),
        ("https://a.example,", "https://a.example", ""),
        (",https://b.example", "", "https://b.example"),
        ("", "", ""),
    ],
)
def test_one_address_serves_all_rates_or_each_publisher_has_its_own(
    rates: str, treasury: str, nyfed: str
) -> None:
    settings = read(rates_url=rates)

    assert (settings.treasury_url, settings.nyfed_url) == (treasury, nyfed)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({}).port = 1  # type: ignore[misc]


def test_a_bound_that_no_reading_could_meet_is_refused() -> None:
    assert refusal(poll_seconds="27").startswith("BAROGRAPH_FEED_MAX_AGE_SECONDS must be more")


def identity(url: str, **changes: str) -> dict[str, str]:
    return {"identity": "supabase", "identity_url": url, "identity_api_key": "public", **changes}


@pytest.mark.parametrize("kind", ["supabase", "oidc"])
def test_an_identity_provider_has_tls_or_is_on_this_machine(kind: str) -> None:
    for url in (
        *("https://id.example", "https://id.example/", "https://10.0.0.1:8443/realms/x"),
        *("http://127.0.0.1:9999", "http://127.8.9.1/x/", "http://[::1]:80", "http://localhost"),
    ):
        assert read(**identity(url, identity=kind)).identity_url == url
    for url in (
        *("http://id.example", "http://10.0.0.1", "http://[2001:db8::1]", "http://0.0.0.0"),
        *("http://localhost.id.example", "http://127.0.0.1.id.example", "http://127.1"),
        *("http://[::ffff:10.0.0.1]", "http://[", "ws://127.0.0.1", "id.example"),
    ):
        said = refusal(**identity(url, identity=kind))
        assert said.startswith("BAROGRAPH_IDENTITY_URL: "), url
        assert "https://" in said or "IPv6" in said


def test_supabase_needs_its_api_key_and_an_issuer_none() -> None:
    said = refusal(**identity("https://id.example", identity_api_key=""))
    assert "needs BAROGRAPH_IDENTITY_API_KEY" in said
    values = identity("https://id.example", identity="oidc", identity_api_key="")
    assert read(**values).identity == "oidc"


WALLET = "0x" + "a5" * 20
PAID = {
    "x402_facilitator_url": "https://pay.example/x402",
    "x402_asset": WALLET,
    "x402_pay_to": WALLET,
}


@pytest.mark.parametrize("name", ["x402_facilitator_url", "x402_chain_url"])
def test_who_decides_about_money_has_tls_or_is_on_this_machine(name: str) -> None:
    for url in ("https://node.example/v2/key", "http://127.0.0.1:9", "http://[::1]:9/rpc"):
        assert getattr(read(**PAID | {name: url}), name) == url
    for url in (
        *("http://node.example", "http://10.0.0.1", "http://localhost.example"),
        *("http://0.0.0.0:9", "ftp://127.0.0.1", "https://node.example/"),
        "https://node.example?key=1",
    ):
        assert f"{PREFIX}{name.upper()}: an https:// address" in refusal(**PAID | {name: url}), url


def test_without_an_address_nothing_is_asked() -> None:
    assert read(**PAID, x402_chain_url="").x402_chain_url == ""
    assert not Settings.from_environment({}).takes_payments


def test_the_facilitator_gets_a_fixed_token_or_signed_requests_but_not_both() -> None:
    key = {"x402_cdp_key_id": "id", "x402_cdp_key_secret": "secret"}
    assert read(**PAID, **key).x402_cdp_key_secret.get_secret_value() == "secret"
    for name, value in key.items():
        assert "are needed together" in refusal(**PAID, **{name: value})
    assert "can't both be set" in refusal(**PAID, **key, x402_facilitator_token="token")


def test_a_stance_that_costs_as_much_as_feed_is_refused() -> None:
    assert "must differ in price" in refusal(**PAID, stance_price_usd="25.00")
    assert "must differ in price" in refusal(**PAID, feed_price_usd="0.25")
    assert read(**PAID, stance_price_usd="24.99").takes_payments


def test_a_worker_that_takes_payments_may_see_a_settlement_to_its_end() -> None:
    assert read(**PAID).stop_seconds > SETTLE_SECONDS + 5
    assert Settings().stop_seconds == 6


@pytest.mark.parametrize("name", ["security_contact", "sales_contact"])
def test_a_contact_is_an_address_of_mail_or_web(name: str) -> None:
    for contact in ("", "mailto:security@example.com", "https://example.com/security"):
        assert getattr(read(**{name: contact}), name) == contact
    for contact in (
        *("security@example.com", "http://example.com", "mailto:nobody", "mailto:a@b c"),
        *("https://", "mailto:a@b.example\nContact: mailto:other@example.com"),
    ):
        said = refusal(**{name: contact})
        assert said.startswith(f"BAROGRAPH_{name.upper()}: it must begin"), contact


@pytest.mark.parametrize(
    "url",
    [
        "redis://valkey.example",
        "rediss://user:hunter2%40x@[2001:db8::1]:6380/3?ssl_ca_certs=/etc/ca.pem",
        "valkey://:hunter2@10.0.0.7/0?socket_timeout=0.2",
    ],
)
def test_rate_limits_can_be_counted_on_a_server(url: str) -> None:
    settings = read(limits_url=url, workers="4")

    assert not settings.limits_use_file
    assert "hunter2" not in repr(settings)
    assert Settings.from_environment(settings.to_environment()) == settings


@pytest.mark.parametrize(
    "url",
    [
        "hunter2",
        "unix:///hunter2.sock",
        "redis://:hunter2/x@valkey.example",
        "redis://valkey.example:hunter2",
        "redis://valkey.example/hunter2",
        "redis://valkey.example?retries=hunter2",
    ],
)
def test_server_address_of_another_form_is_refused_without_its_password(url: str) -> None:
    message = refusal(limits_url=url)

    assert "BAROGRAPH_LIMITS_URL: redis://USER:PASSWORD@HOST" in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("given", "in_file"),
    [({}, False), ({"workers": "2"}, True), ({"trusted_proxies": "127.0.0.1"}, True)],
)
def test_several_processes_share_a_file_of_limits(given: dict[str, str], in_file: bool) -> None:
    assert read(**given).limits_use_file is in_file
