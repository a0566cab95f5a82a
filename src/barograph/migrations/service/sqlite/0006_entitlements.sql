-- Who has paid for what: a user of the identity provider or a wallet, from when to when.
CREATE TABLE entitlements (
    id TEXT PRIMARY KEY,
    tier TEXT NOT NULL CHECK (tier IN ('feed', 'reserve')),
    holder_kind TEXT NOT NULL CHECK (holder_kind IN ('user', 'wallet')),
    holder TEXT NOT NULL,
    starts_at BIGINT NOT NULL,
    ends_at BIGINT NOT NULL CHECK (ends_at > starts_at),
    source TEXT NOT NULL,
    granted_at BIGINT NOT NULL,
    revoked_at BIGINT
);
CREATE INDEX entitlements_by_holder ON entitlements (holder_kind, holder, tier, ends_at);

-- Everything that was ever done to an entitlement, and by whom; rows are only ever added.
CREATE TABLE entitlement_trail (
    -- On SQLite the row's own address, so that no other one is left by which it could be replaced.
    sequence INTEGER PRIMARY KEY,
    entitlement_id TEXT NOT NULL REFERENCES entitlements (id),
    action TEXT NOT NULL CHECK (action IN ('granted', 'extended', 'revoked')),
    at BIGINT NOT NULL,
    ends_at BIGINT NOT NULL,
    by TEXT NOT NULL,
    why TEXT NOT NULL
);
CREATE INDEX entitlement_trail_by_entitlement ON entitlement_trail (entitlement_id, sequence);

CREATE TRIGGER entitlement_trail_is_not_changed BEFORE UPDATE ON entitlement_trail
BEGIN
    SELECT RAISE(ABORT, 'the trail of an entitlement is never changed');
END;

CREATE TRIGGER entitlement_trail_is_not_deleted BEFORE DELETE ON entitlement_trail
BEGIN
    SELECT RAISE(ABORT, 'the trail of an entitlement is never deleted');
END;

-- Also what keeps a REPLACE, which deletes without that trigger, from taking an entry's place.
CREATE TRIGGER entitlement_trail_only_at_the_end BEFORE INSERT ON entitlement_trail
WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM entitlement_trail)
BEGIN
    SELECT RAISE(ABORT, 'the trail of entitlements only ever grows at its end');
END;
