-- What the web side shows now: one row a feed, replaced by each publication.
-- The payload comes last so that polling the versions never touches its pages.
CREATE TABLE snapshots (
    feed TEXT PRIMARY KEY,
    version BIGINT NOT NULL,
    payload TEXT NOT NULL
);

-- Who may write as the leader; the token only ever grows.
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT,
    token BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

-- What was measured: the majors by the minute, every contract by the hour.
-- `at` is the start of the minute or hour; its first reading is the one that counts.
CREATE TABLE readings (
    resolution TEXT NOT NULL CHECK (resolution IN ('minute', 'hour')),
    contract TEXT NOT NULL,
    at BIGINT NOT NULL,
    last_price DOUBLE PRECISION NOT NULL,
    funding_rate_pct DOUBLE PRECISION NOT NULL,
    funding_interval_hours DOUBLE PRECISION NOT NULL,
    open_interest_usd DOUBLE PRECISION NOT NULL,
    long_account_pct DOUBLE PRECISION,
    PRIMARY KEY (resolution, contract, at)
);
CREATE INDEX readings_by_age ON readings (resolution, at);

-- Every liquidation once, however many connections heard it.
CREATE TABLE liquidations (
    at BIGINT NOT NULL,
    contract TEXT NOT NULL,
    side TEXT NOT NULL CHECK (side IN ('long', 'short')),
    size DOUBLE PRECISION NOT NULL,
    price DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (at, contract, side, size, price)
);

-- Spans of time in which no liquidation can have been missed. A span grows in place.
CREATE TABLE watched_spans (
    start_at BIGINT PRIMARY KEY,
    end_at BIGINT NOT NULL
);

-- What was concluded: each change of the regime, with the rate that was seen.
CREATE TABLE regime_changes (
    at BIGINT PRIMARY KEY,
    label TEXT NOT NULL,
    funding_8h_pct DOUBLE PRECISION
);
