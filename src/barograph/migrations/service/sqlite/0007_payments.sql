-- Every payment proof that was taken seriously: what became of it, and where.
CREATE TABLE payments (
    id TEXT PRIMARY KEY,
    network TEXT NOT NULL,
    asset TEXT NOT NULL,
    payer TEXT NOT NULL,
    nonce TEXT NOT NULL,
    door TEXT NOT NULL,
    -- Its own, because the operator may be paid elsewhere by the time somebody asks the chain.
    pay_to TEXT NOT NULL,
    amount TEXT NOT NULL,
    valid_before BIGINT NOT NULL,
    state TEXT NOT NULL
        CHECK (state IN ('claimed', 'settling', 'settled', 'released', 'failed', 'unknown')),
    claimed_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- Not `transaction`, which is a word of SQL's own.
    transaction_hash TEXT,
    entitlement_id TEXT REFERENCES entitlements (id),
    reason TEXT,
    released_at BIGINT,
    -- SHA-256 of the signature: payer and nonce are public once the chain has them.
    signature_digest TEXT NOT NULL,
    -- One authorization is one payment, whichever door it is shown at, however often.
    UNIQUE (network, asset, payer, nonce)
);
CREATE INDEX payments_by_state ON payments (state, updated_at);

CREATE TRIGGER payments_are_not_deleted BEFORE DELETE ON payments
BEGIN
    SELECT RAISE(ABORT, 'a payment is never deleted');
END;

-- What moved, moved. Also what keeps a payment from being settled twice.
CREATE TRIGGER payments_end_once BEFORE UPDATE ON payments
WHEN OLD.state IN ('settled', 'failed') AND NEW.state IS NOT OLD.state
BEGIN
    SELECT RAISE(ABORT, 'a payment that is settled or failed stays so');
END;

CREATE TRIGGER payments_keep_their_name BEFORE UPDATE ON payments
WHEN (NEW.id, NEW.network, NEW.asset, NEW.payer, NEW.nonce)
    IS NOT (OLD.id, OLD.network, OLD.asset, OLD.payer, OLD.nonce)
BEGIN
    SELECT RAISE(ABORT, 'a payment stays the payment of its authorization');
END;

-- Every step of every payment; rows are only ever added.
CREATE TABLE payment_trail (
    -- On SQLite the row's own address, so that no other one is left by which it could be replaced.
    sequence INTEGER PRIMARY KEY,
    payment_id TEXT NOT NULL REFERENCES payments (id),
    step TEXT NOT NULL CHECK (
        step IN (
            'claimed', 'settling', 'settled', 'released', 'failed', 'unknown',
            'delivered', 'undelivered'
        )
    ),
    at BIGINT NOT NULL,
    detail TEXT
);
CREATE INDEX payment_trail_by_payment ON payment_trail (payment_id, sequence);

CREATE TRIGGER payment_trail_is_not_changed BEFORE UPDATE ON payment_trail
BEGIN
    SELECT RAISE(ABORT, 'the trail of a payment is never changed');
END;

CREATE TRIGGER payment_trail_is_not_deleted BEFORE DELETE ON payment_trail
BEGIN
    SELECT RAISE(ABORT, 'the trail of a payment is never deleted');
END;

-- Also what keeps a REPLACE, which deletes without that trigger, from taking an entry's place.
CREATE TRIGGER payment_trail_only_at_the_end BEFORE INSERT ON payment_trail
WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM payment_trail)
BEGIN
    SELECT RAISE(ABORT, 'the trail of payments only ever grows at its end');
END;
