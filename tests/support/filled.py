"""Rows of every table, and what a copy of them must hold."""

import asyncio
from pathlib import Path

import apsw
import asyncpg

from barograph.history.ledger import Ledger
from barograph.kit.clock import system_clock
from barograph.kit.database import Row
from barograph.kit.json import digest
from barograph.kit.opening import open_database
from barograph.kit.timestamps import iso_timestamp
from support.operator import Operator, sign
from support.stances import FUNDING, RATES

SHA = "ab" * 32
ROWS: dict[str, list[Row]] = {
    "leases": [("collector", "host:1", 1_700_000_123, 1_700_000_200_000)],
    "readings": [
        (
            *("bybit", "minute", "BTCUSDT", at, 7, None, 8, 1e15 / 3, 50.1, 5e-324),
            *("measured", "price", 7.01, 7.0, 1e9, None),
        )
        for at in range(3)
    ],
    "listings": [("bybit", "BTCUSDT", 1, None, "BTC", 1)],
    "liquidations": [("bybit", 1, "BTCUSDT", "long", 0.1, 70_000.5, "measured")],
    "watched_spans": [("bybit", 1, 2, "measured")],
    "disputed_sides": [("bybit", 1, 2)],
    "regime_changes": [("bybit", 1, "Überhitzt ☃", None, "backfilled")],
    "liquidation_files": [("bybit", "2026-11-14", 1, 2, 3, SHA, "[[1,2]]")],
    "liquidation_file_parts": [("bybit", "2026-11-14", part, "QUJD" * 99) for part in (0, 1)],
    "frames": [("bybit", 3_600_000, "eNqrBgAA")],
    "liquidation_hours": [("bybit", 3_600_000, 1.5, 0, 99.9, "measured")],
    "settlement_reports": [
        ("bybit", contract, 8, revision, 0.01 * revision, 9, "measured")
        for revision in (1, 2)
        for contract in ("ETHUSDT", "BTCUSDT")
    ],
    "backfills": [("bybit", "BTCUSDT", 1, 2, 3)],
    "signal_changes": [("btc-etf", 1, "high", '{"a":1}')],
    "briefs": [
        ("a-slug", 1, "c", "h", "BTC", "s", "line\nline", "src", "r", 1, 2, "{}", SHA, "k", 2, 1)
    ],
    "brief_versions": [
        ("a-slug", 1, "c", "h", "BTC", "s", "b", "src", "r", 1, 2, "{}", SHA, "k", 1, None)
    ],
    "events": [
        (n, f"cause/{n}", "signal.changed", n, text, digest(text), "")
        for n in range(1, 13)
        for text in [f'{{"at":"{iso_timestamp(n)}","id":{n},"type":"signal.changed"}}']
    ],
    "merged_heads": [("rates-desk", "versions", 1, SHA, "")],
    "cosignatures": [("127.0.0.1:8080/history/events", "w", 1, SHA, "— w QUJD", 2, "", 0, None)],
    "cosigned_checkpoints": [("127.0.0.1:8080/history/events", 1, SHA, "— w QUJD\n")],
    "observations": [("us10y", day, n, 4.0 + n, "t", 5) for n in (1, 2) for day in ("b", "a")],
    "registrations": [(SHA, "a@example.com", "a@example.com", 1, 2, None, "caller", 1)],
    "api_keys": [("key1", SHA, "a@example.com", "a@example.com", 2**53 + 1, None)],
    "outbox": [("m1", "a@example.com", "subject", "body", 1, 0, 2, 3, "https://b.example/stop", 1)],
    "entitlements": [("e1", "feed", "wallet", "0x1", 1, 2, "x402", 1, None)],
    "entitlement_trail": [(n, "e1", "granted", 1, 2, "x402", "paid") for n in range(1, 13)],
    "payments": [
        (
            *("p1", "n", "a", "0x1", "0x2", "/api/x402/feed", "0x3", "25000000", 9, "settled"),
            *(1, 2, "0xt", "e1", None, None, SHA, None, None, 0),
        )
    ],
    "payment_trail": [(n, "p1", "claimed", n, None) for n in range(1, 13)],
    "status_counts": [("hour", "feed", 1, 2, 3, 4)],
    "status_runs": [("feed", 1, 2, "ok", "")],
    "status_incidents": [("feed", 1, None, "down", "d", None, None, 0)],
    "webhooks": [
        (
            *("wh_1", "a@example.com", "https://a.example/hook", "", "BTC", "whsec_YQ==", "active"),
            *(1, 2, 0, None, 3, None, None, "whsec_Yg==", 4, "json", 5),
        )
    ],
    "webhook_deliveries": [("wh_1", n, f"msg_{n}", n, 1, 1, 200, None, 5) for n in range(1, 13)],
    "alerts": [("al_1", "a@example.com", "{}", "mail,wh_1", "active", None, 1, 2, "token")],
    "alert_states": [("al_1", "BTC", "bybit", 1, None)],
    "alert_messages": [(n, "al_1", "a@example.com", 1, 2, "{}", f"t{n}") for n in range(1, 13)],
    "alert_position": [(1, 12, 9, 11)],
    "webhook_keys": [(1, "YQ==")],
    "terms_confirmations": [("bybit", "2026-01-01", "terms", 1)],
}
"""Rows of every table that the operator's commands leave empty."""


def fill(operator: Operator) -> None:
    operator.record(0)
    operator.record(0, kind=RATES)
    withdraw(operator, FUNDING)
    operator.record(1, kind=RATES)
    withdraw(operator, RATES)
    operator.record(1)
    withdraw(operator, FUNDING)
    operator.publish()
    asyncio.run(sign(operator.database, operator.history))
    asyncio.run(lead(operator.history))
    with apsw.Connection(str(operator.database)) as connection:
        for table, rows in ROWS.items():
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
    connection.close()


def withdraw(operator: Operator, kind: str) -> None:
    result = operator.run("withdraw", kind, "--why", "a wrong file", "--yes")
    assert result.exit_code == 0, result.output


async def lead(history: Path) -> None:
    database = open_database(history)
    await Ledger(database, system_clock).announce_leader(1_700_000_123)
    await database.close()


def sqlite_rows(file: Path) -> dict[str, list[Row]]:
    connection = apsw.Connection(str(file))
    names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    found = {str(name): connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in names}
    connection.close()
    return comparable(found)


async def postgresql_rows(url: str) -> dict[str, list[Row]]:
    connection = await asyncpg.connect(url)
    names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    found = {
        name: [tuple(row) for row in await connection.fetch(f"SELECT * FROM {name}")]
        for (name,) in names
    }
    await connection.close()
    return comparable(found)


def comparable(tables: dict[str, list[Row]]) -> dict[str, list[Row]]:
    return {
        table: sorted(rows, key=repr)
        for table, rows in tables.items()
        if table not in ("schema_migrations", "secret_fingerprints")
    }


def source_rows(operator: Operator) -> dict[str, list[Row]]:
    """The rows that a copy must hold: all of them, with every lease released."""
    rows = {**sqlite_rows(operator.database), **sqlite_rows(operator.history)}
    return {**rows, "leases": [(name, None, token, 0) for name, _, token, _ in rows["leases"]]}
