"""The checks of `barograph doctor` on the services that an instance depends on."""

from functools import partial
from typing import Final

from barograph.cli.diagnosis import (
    Check,
    Diagnosis,
    explain_failure,
    explained,
    failed,
    host_of,
    note,
    ok,
    only_opened,
    open_problem,
)
from barograph.collector.app import FILE_SECONDS, macro_sources
from barograph.errors import (
    ConfigurationError,
    UpstreamError,
)
from barograph.history.cosigning import load_policy
from barograph.identity.provider import IdentityMisconfigured, IdentityUnavailable
from barograph.kit.business_days import business_days, trading_days
from barograph.kit.clock import system_clock
from barograph.kit.timestamps import SECOND
from barograph.macro.evidence import day_of, is_recent
from barograph.payments.records import SCHEME, X402_VERSION, ChainUnavailable
from barograph.settings import REQUEST_SECONDS, Settings
from barograph.terms.sources import Unconfirmed
from barograph.upstream.chain import JsonRpcChain
from barograph.upstream.facilitator import HttpFacilitator
from barograph.upstream.files import FileClient
from barograph.upstream.identity_http import TokenIdentity
from barograph.upstream.identity_provider import identity_provider
from barograph.upstream.mail import SmtpSender, parse_smtp_url
from barograph.upstream.oidc import DISCOVERY
from barograph.upstream.supabase import KEYS_PATH

MAX_BLOCK_AGE = 120 * SECOND
"""Blocks of the supported chains are 2 to 12 seconds apart."""

SMTP_PORT = 25

_PUBLISHER: Final = {
    "refused": "the publisher blocks this IP address, as many do for data centres: try another "
    "network",
    "throttled": "wait; the collector retries",
    "unreachable": "wait; the collector retries",
    "invalid reply": "open {setting} in a browser here: a sign-in page or a filter may answer, or "
    "the publisher changed the file",
    "not found": "the publisher moved the file: check {setting}",
}


async def _publisher(setting: str, prefixes: tuple[str, ...], settings: Settings) -> Diagnosis:
    """Check the sources of daily figures whose names begin so."""
    named, is_etf = f"BAROGRAPH_{setting.upper()}", setting == "etf_url"
    is_file = is_etf and settings.etf_file is not None
    files = FileClient(seconds=FILE_SECONDS, clock=system_clock, user_agent=settings.user_agent)
    sources = macro_sources(settings, files, clock=system_clock)
    try:
        days = [
            max((each.day for each in await source.read()), default="")
            for source in sources
            if source.name.startswith(prefixes)
        ]
    except UpstreamError as error:
        if is_file:
            return failed(
                f"{error.kind}: {error}", "correct the file that BAROGRAPH_ETF_FILE names"
            )
        remedy = _PUBLISHER.get(error.kind, _PUBLISHER["invalid reply"]).format(setting=named)
        return await explain_failure(error, host_of(getattr(settings, setting)), remedy)
    finally:
        await files.close()
    if not days:
        return note("not configured", f"set {named}")
    day, calendar = min(days), trading_days if is_etf else business_days
    if day and is_recent(day, day_of(system_clock()), calendar):
        return ok(f"newest day: {day}")
    advice = "add newer days to BAROGRAPH_ETF_FILE" if is_file else "wait; the collector retries"
    return note(f"newest day: {day or 'none'}, too old for a stance", advice)


async def _identity(settings: Settings) -> Diagnosis:
    provider = identity_provider(settings, system_clock)
    if not isinstance(provider, TokenIdentity):
        return note("not configured: no bearer token is accepted")
    try:
        count = await provider.check()
    except IdentityMisconfigured as error:
        return explained(error, "create a signing key at the provider", "; ")
    except IdentityUnavailable as error:
        url = settings.identity_url.rstrip("/")
        page = url + (f"/auth/v1{KEYS_PATH}" if settings.identity == "supabase" else DISCOVERY)
        check = "check BAROGRAPH_IDENTITY_URL and BAROGRAPH_IDENTITY_API_KEY"
        return await explain_failure(error, host_of(url), f"{check}; if they are right, wait", page)
    finally:
        await provider.close()
    return ok(f"{count} public key{'' if count == 1 else 's'}")


async def _facilitator(settings: Settings) -> Diagnosis:
    if not settings.takes_payments:
        return note("not configured: nothing is sold by x402")
    try:
        facilitator = HttpFacilitator(settings)
    except ConfigurationError as error:
        return failed(str(error), "correct the setting")
    url = settings.x402_facilitator_url
    try:
        kinds = await facilitator.supported()
    except UpstreamError as error:
        if "; " in str(error):  # the remedy for a redirect
            return explained(error, mark="; ")
        remedy = "check BAROGRAPH_X402_FACILITATOR_URL and its credentials; if they are right, wait"
        return await explain_failure(error, host_of(url), remedy, f"{url}/supported")
    finally:
        await facilitator.close()
    ours = (X402_VERSION, SCHEME, settings.x402_network)
    if ours in [(each.x402_version, each.scheme, each.network) for each in kinds]:
        return ok(f"it supports {SCHEME} payments on {settings.x402_network}")
    networks = ", ".join(sorted({each.network for each in kinds})) or "none"
    detail = f"it supports no {SCHEME} payments of x402 v{X402_VERSION} on {settings.x402_network}"
    return failed(
        f"{detail}; its networks: {networks}",
        "set BAROGRAPH_X402_NETWORK to one of its networks, or use another facilitator",
    )


async def _chain(settings: Settings) -> Diagnosis:
    if not settings.takes_payments:
        return note("not configured: nothing is sold by x402")
    if not settings.x402_chain_url:
        return note(
            "nothing resolves a payment whose result the facilitator doesn't report",
            "set BAROGRAPH_X402_CHAIN_URL, or resolve such payments with `barograph payments`",
        )
    chain = JsonRpcChain(settings)
    try:
        age = system_clock() - (await chain.check()).timestamp * SECOND
    except ChainUnavailable as error:
        remedy = "check BAROGRAPH_X402_CHAIN_URL, BAROGRAPH_X402_NETWORK and BAROGRAPH_X402_ASSET"
        return await explain_failure(error, host_of(settings.x402_chain_url), remedy)
    finally:
        await chain.close()
    if age > MAX_BLOCK_AGE:
        detail = f"the node's newest block is {age // SECOND} s old"
        return failed(detail, "use a node that is in sync")
    return ok(f"the node of {settings.x402_network} knows the token and is in sync")


async def _mail(settings: Settings) -> Diagnosis:
    if not settings.sends_mail:
        return note("not configured: create keys with `barograph keys create`")
    remedy = "check BAROGRAPH_SMTP_URL and BAROGRAPH_MAIL_FROM"
    try:
        sender = SmtpSender(settings, clock=system_clock, seconds=REQUEST_SECONDS)
        await sender.greet()
    except ConfigurationError as error:
        return failed(str(error), remedy)
    except UpstreamError as error:
        server = parse_smtp_url(settings.smtp_url.get_secret_value())
        found = await explain_failure(error, f"{server.host}:{server.port}", remedy)
        hint = "; many networks block port 25" if server.port == SMTP_PORT else ""
        return found._replace(remedy=remedy + hint)
    return ok("the mail server answers")


def unread_publishers(settings: Settings, unconfirmed: Unconfirmed) -> dict[str, Check]:
    """Replacements for the checks of publishers that may not be read."""
    addresses = {
        "treasury": ("treasury", settings.treasury_url),
        "nyfed": ("nyfed", settings.nyfed_url),
        "etf": ("ishares", settings.etf_url),
    }
    return {
        name: partial(only_opened, source, address)
        for name, (source, address) in addresses.items()
        if source in unconfirmed.names
    }


async def _witnesses(settings: Settings) -> Diagnosis:
    policy = load_policy(settings.witness_policy)
    if policy is None:
        return note("not configured: only our key signs checkpoints")
    for name, url in policy.urls.items():
        problem = await open_problem(url)
        if problem is not None:
            return problem._replace(detail=f"{name}: {problem.detail}")
    count = len(policy.witnesses)
    return ok(f"every witness can be reached ({count}); quorum: {policy.in_words()}")


CHECKS: Final[dict[str, Check]] = {
    "treasury": partial(_publisher, "treasury_url", ("treasury",)),
    "nyfed": partial(_publisher, "nyfed_url", ("sofr", "effr")),
    "etf": partial(_publisher, "etf_url", ("etf-",)),
    "identity": _identity,
    "facilitator": _facilitator,
    "chain": _chain,
    "mail": _mail,
    "witnesses": _witnesses,
}
"""In the order of their lines."""
