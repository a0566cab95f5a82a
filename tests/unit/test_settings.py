"""Every setting is described, comes from the environment and refuses what cannot work."""

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

NAMES = sorted(Settings.model_fields)
FLOATS = [name for name in NAMES if Settings.model_fields[name].annotation is float]


def read(**values: str) -> Settings:
    return Settings.from_environment({PREFIX + name.upper(): v for name, v in values.items()})


def refusal(**values: str) -> str:
    with pytest.raises(ConfigurationError) as refused:
        read(**values)
    return str(refused.value)


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_is_described_in_a_sentence(name: str) -> None:
    description = Settings.model_fields[name].description

    assert description is not None
    assert description[0].isupper()
    assert description.endswith(".")


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_has_a_default_so_that_nothing_must_be_set(name: str) -> None:
    assert not Settings.model_fields[name].is_required()


def test_an_empty_environment_gives_the_defaults() -> None:
    assert Settings.from_environment({}) == Settings.model_validate({})


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


def test_the_environment_holds_every_setting_under_its_own_name() -> None:
    environment = Settings.model_validate({}).to_environment()

    assert set(environment) == {PREFIX + name.upper() for name in NAMES}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("prot", "BAROGRAPH_PORT"),
        ("poll_second", "BAROGRAPH_POLL_SECONDS"),
        ("exchange_url", "BAROGRAPH_EXCHANGE_REST_URL"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(name: str, meant: str) -> None:
    said = refusal(**{name: "1"})

    assert said.startswith(f"BAROGRAPH_{name.upper()} is not a setting")
    assert f"did you mean {meant}?" in said


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
    assert len(Settings.model_fields) < 60


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
    assert read(exchange_rest_url=rest).exchange_stream_url == stream
    assert Settings().binance_stream_url == "wss://fstream.binance.com/market/stream"


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


def test_an_unknown_name_that_is_like_no_other_is_refused_without_a_guess() -> None:
    said = refusal(zzzzzzzz="1")

    assert said == "BAROGRAPH_ZZZZZZZZ is not a setting (`barograph settings` lists them all)"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "0"),
        ("port", "65536"),
        ("port", "eighty"),
        ("port", ""),
        ("workers", "0"),
        ("workers", "1.5"),
        ("log_level", "loud"),
        ("log_level", "info\n"),
        ("poll_seconds", "0"),
        ("poll_seconds", "-1"),
        ("poll_seconds", "61"),
        ("feed_max_age_seconds", "0"),
        ("base_url", "barograph.example"),
        ("base_url", "https://barograph.example/"),
        ("base_url", "ftp://barograph.example"),
        ("exchange_rest_url", ""),
        ("exchange_rest_url", "api.exchange.example"),
        ("rates_url", "https://a.example,b.example"),
        ("rates_url", "https://a.example,https://b.example,https://c.example"),
        ("exchange_source", ""),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name(name: str, value: str) -> None:
    assert refusal(**{name: value}).startswith(f"BAROGRAPH_{name.upper()}: ")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("name", FLOATS)
def test_a_number_that_is_not_finite_is_refused_by_name(name: str, value: str) -> None:
    assert refusal(**{name: value}).startswith(f"BAROGRAPH_{name.upper()}: ")


def test_all_bad_values_are_named_at_once() -> None:
    said = refusal(port="x", workers="0")

    assert "BAROGRAPH_PORT: " in said
    assert "BAROGRAPH_WORKERS: " in said


@pytest.mark.parametrize(
    ("host", "port", "base_url"),
    [
        ("127.0.0.1", "8080", "http://127.0.0.1:8080"),
        ("::1", "9000", "http://[::1]:9000"),
    ],
)
def test_the_base_address_is_the_bound_one_unless_set(host: str, port: str, base_url: str) -> None:
    assert read(host=host, port=port).base_url == base_url
    assert read(host=host, port=port, base_url="https://b.example").base_url == "https://b.example"


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({}).port = 1  # type: ignore[misc]


def test_a_host_name_is_refused_because_the_server_binds_addresses() -> None:
    with pytest.raises(ConfigurationError, match="BAROGRAPH_HOST: 'localhost' does not appear"):
        Settings.from_environment({"BAROGRAPH_HOST": "localhost"})


def test_a_bound_that_no_reading_could_meet_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="BAROGRAPH_FEED_MAX_AGE_SECONDS must be more"):
        Settings.from_environment({"BAROGRAPH_POLL_SECONDS": "27"})


@pytest.mark.parametrize("address", ["http://x y", "http://x?z", "http://x#z", "http://", "x", "/"])
def test_a_base_address_that_no_link_could_begin_with_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="BAROGRAPH_BASE_URL"):
        Settings.from_environment({"BAROGRAPH_BASE_URL": address})


@pytest.mark.parametrize(
    ("host", "base_url"), [("0.0.0.0", "http://127.0.0.1:8080"), ("::", "http://[::1]:8080")]
)
def test_links_of_a_server_that_binds_every_address_can_be_followed(
    host: str, base_url: str
) -> None:
    assert Settings.from_environment({"BAROGRAPH_HOST": host}).base_url == base_url


def test_an_empty_folder_name_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="BAROGRAPH_DATA: a folder is needed"):
        Settings.from_environment({"BAROGRAPH_DATA": ""})


def identity(url: str, **changes: str) -> dict[str, str]:
    return {"identity": "supabase", "identity_url": url, "identity_api_key": "public", **changes}


@pytest.mark.parametrize("kind", ["supabase", "oidc"])
@pytest.mark.parametrize(
    "url",
    [
        *("https://id.example", "https://id.example/", "https://10.0.0.1:8443/realms/x"),
        *("http://127.0.0.1:9999", "http://127.8.9.1/x/", "http://[::1]:80", "http://localhost"),
    ],
)
def test_an_identity_provider_has_tls_or_is_on_this_machine(url: str, kind: str) -> None:
    assert read(**identity(url, identity=kind)).identity_url == url


@pytest.mark.parametrize("kind", ["supabase", "oidc"])
@pytest.mark.parametrize(
    "url",
    [
        *("http://id.example", "http://10.0.0.1", "http://[2001:db8::1]", "http://0.0.0.0"),
        *("http://localhost.id.example", "http://127.0.0.1.id.example", "http://127.1"),
        *("http://[::ffff:10.0.0.1]", "http://[", "ws://127.0.0.1", "id.example"),
    ],
)
def test_an_identity_provider_elsewhere_without_tls_is_refused(url: str, kind: str) -> None:
    said = refusal(**identity(url, identity=kind))
    assert said.startswith("BAROGRAPH_IDENTITY_URL: ")
    assert "https://" in said or "IPv6" in said


def test_supabase_needs_its_api_key_and_an_issuer_none() -> None:
    said = refusal(**identity("https://id.example", identity_api_key=""))
    assert "needs BAROGRAPH_IDENTITY_API_KEY" in said
    values = identity("https://id.example", identity="oidc", identity_api_key="")
    assert read(**values).identity == "oidc"


def test_a_worker_that_takes_payments_may_see_a_settlement_to_its_end() -> None:
    wallet = "0x" + "11" * 20
    paid = Settings(
        x402_facilitator_url="https://pay.example", x402_asset=wallet, x402_pay_to=wallet
    )
    assert paid.stop_seconds > SETTLE_SECONDS + 5
    assert Settings().stop_seconds == 6


@pytest.mark.parametrize(
    "contact", ["", "mailto:security@example.com", "https://example.com/security"]
)
def test_a_contact_is_an_address_of_mail_or_web(contact: str) -> None:
    assert read(security_contact=contact).security_contact == contact
    assert read(sales_contact=contact).sales_contact == contact


@pytest.mark.parametrize(
    "contact",
    [
        *(
            "security@example.com",
            "http://example.com",
            "mailto:nobody",
            "mailto:a@b c",
            "https://",
        ),
        "mailto:a@b.example\nContact: mailto:other@example.com",
    ],
)
def test_a_contact_that_nobody_can_follow_is_refused(contact: str) -> None:
    assert refusal(security_contact=contact).startswith("BAROGRAPH_SECURITY_CONTACT: it must begin")
    assert refusal(sales_contact=contact).startswith("BAROGRAPH_SALES_CONTACT: it must begin")


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
def test_rate_limits_are_in_a_file_if_several_processes_may_share_them(
    given: dict[str, str], in_file: bool
) -> None:
    assert read(**given).limits_use_file is in_file
