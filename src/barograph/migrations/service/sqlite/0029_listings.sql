-- What the same calls carry: mark and index price, and the volume of 24 hours as the venue counts it.
ALTER TABLE readings ADD COLUMN mark_price DOUBLE PRECISION;
ALTER TABLE readings ADD COLUMN index_price DOUBLE PRECISION;
ALTER TABLE readings ADD COLUMN volume_24h_usd DOUBLE PRECISION;
ALTER TABLE readings ADD COLUMN volume_24h_coins DOUBLE PRECISION;

-- When each contract was listed, as far as we know: the universe of coins at any time. A contract
-- that is listed again has a further row.
CREATE TABLE listings (
    venue TEXT NOT NULL,
    contract TEXT NOT NULL,
    listed_at BIGINT NOT NULL,
    -- The first reading without it; NULL while it is listed.
    delisted_at BIGINT,
    -- The coin, and how many coins price and sizes are for. The coin is empty for contracts from
    -- before this table, until the collector has named them.
    asset TEXT NOT NULL,
    multiplier BIGINT NOT NULL,
    PRIMARY KEY (venue, contract, listed_at)
);
CREATE INDEX listings_by_asset ON listings (asset);

-- An hour may be missing by chance, so a contract is delisted once it lacks the newest six.
WITH contracts AS (
    SELECT venue, contract, min(at) AS first_at, max(at) AS last_at
    FROM readings WHERE resolution = 'hour' GROUP BY venue, contract
), venues AS (
    SELECT venue, max(last_at) AS newest_at FROM contracts GROUP BY venue
)
INSERT INTO listings (venue, contract, listed_at, delisted_at, asset, multiplier)
SELECT contracts.venue, contract, first_at,
    CASE WHEN last_at <= newest_at - 6 * 3600000 THEN last_at + 3600000 END, '', 1
FROM contracts JOIN venues ON venues.venue = contracts.venue;
