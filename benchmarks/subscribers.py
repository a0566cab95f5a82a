"""A service with a subscriber and a record, whose newest two versions can be compared."""

import asyncio
from pathlib import Path
from urllib.parse import urlencode

from msgspec.structs import replace
from pydantic import SecretStr

from barograph.entitlements.store import FEED, Entitlements, Holder
from barograph.history.ledger import Ledger
from barograph.history.records import Version
from barograph.kit.clock import system_clock
from barograph.kit.opening import open_database
from barograph.kit.timestamps import DAY
from barograph.material_change.endpoints import MATERIAL_CHANGE_PATH
from barograph.settings import Settings
from barograph_demo.servers.identity import API_KEY, DEMO_USERS, demo_token
from benchmarks.ledger import load_record
from benchmarks.market import benchmark_settings, publish_market
from support.comparisons import of_rates

SOURCE = "benchmark"
PERIOD = 30 * DAY


def entitled_settings(data: Path, servers: dict[str, str]) -> Settings:
    """A service in a new folder that uses the simulated identity provider."""
    data.mkdir()
    who = {
        "identity": "supabase",
        "identity_url": servers["identity"],
        "identity_api_key": SecretStr(API_KEY),
    }
    return benchmark_settings(data).model_copy(update=who)


def bearer(folder: Path, servers: dict[str, str]) -> tuple[str]:
    """The header field of the subscriber."""
    token = demo_token(folder / "world", "feed", system_clock(), servers["identity"])
    return (f"Authorization: Bearer {token}",)


def fill_service(settings: Settings, count: int) -> str:
    """A market, a subscriber, and a record; return the address that compares its newest two."""
    publish_market(settings)

    async def work() -> str:
        await load_record(settings.history_address, count - 2)
        database = open_database(settings.database_address)
        history = open_database(settings.history_address)
        subscriber = Holder("user", DEMO_USERS["feed"])
        await Entitlements(database, system_clock).add_period(
            subscriber, FEED, period_ms=PERIOD, source=SOURCE, by=SOURCE, why=SOURCE
        )
        ledger, now = Ledger(history, system_clock), system_clock()
        before, after = [
            (await ledger.append(replace(of_rates(), leg_id=name, expires_at=now + PERIOD))).version
            for name in ("before", "after")
        ]
        await database.close()
        await history.close()
        return _target(before, after)

    return asyncio.run(work())


def _target(before: Version, after: Version) -> str:
    query = {"kind": after.kind}
    for side, version in (("before", before), ("after", after)):
        query |= {
            f"{side}_leg": version.leg_id,
            f"{side}_revision": str(version.revision),
            f"{side}_digest": version.history_digest,
        }
    return f"{MATERIAL_CHANGE_PATH}?{urlencode(query)}"
