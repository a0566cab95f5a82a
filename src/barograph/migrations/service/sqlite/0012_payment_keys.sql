-- SHA-256 of the Idempotency-Key or payment identifier of the first request. Unlike the signature
-- it never goes on chain, so only the payer can repeat the request.
ALTER TABLE payments ADD COLUMN key_digest TEXT;

-- What was sold: the sequence of a stance in the record of its kind. A repeat delivers the same.
ALTER TABLE payments ADD COLUMN item TEXT;

-- 0 for every purchase since this migration. Wallets may have had several open purchases before:
-- they stay as they are, numbered so that the index below accepts them.
ALTER TABLE payments ADD COLUMN older_open BIGINT NOT NULL DEFAULT 0;
UPDATE payments SET older_open = (
    SELECT count(*) FROM payments AS older
    WHERE (older.network, older.asset, older.payer, older.door)
        = (payments.network, payments.asset, payments.payer, payments.door)
        AND older.state IN ('claimed', 'settling', 'unknown')
        AND (older.claimed_at, older.id) < (payments.claimed_at, payments.id)
)
WHERE state IN ('claimed', 'settling', 'unknown');

-- A wallet buys one period of Feed at a time.
CREATE UNIQUE INDEX payments_one_open_purchase ON payments (network, asset, payer, older_open)
WHERE door = '/api/x402/feed' AND state IN ('claimed', 'settling', 'unknown');
