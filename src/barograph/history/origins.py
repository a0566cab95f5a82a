"""Which name and key the published logs have, and whether they may be signed now."""

from barograph.kit.database import Transaction


async def hold_signing(tx: Transaction, now: int) -> None:
    """Sign nothing in this database from now on, because a backup was restored into it."""
    await tx.execute(_HOLD, now)


_HOLD = """
INSERT INTO history_origin (id, generation, name, held_since) VALUES (1, 1, '', $1)
ON CONFLICT (id) DO UPDATE SET held_since = excluded.held_since
"""
