-- Liquidations by the hour: what a burst is measured against.
CREATE TABLE liquidation_hours (
    at BIGINT PRIMARY KEY,
    long_usd DOUBLE PRECISION NOT NULL,
    short_usd DOUBLE PRECISION NOT NULL,
    watched_pct DOUBLE PRECISION NOT NULL
);

-- The last rate that was read before each settlement of a major contract.
CREATE TABLE settlements (
    contract TEXT NOT NULL,
    at BIGINT NOT NULL,
    funding_rate_pct DOUBLE PRECISION NOT NULL,
    funding_interval_hours DOUBLE PRECISION NOT NULL,
    read_at BIGINT NOT NULL,
    PRIMARY KEY (contract, at)
);

-- Each change of a signal's label.
CREATE TABLE signal_changes (
    key TEXT NOT NULL,
    at BIGINT NOT NULL,
    label TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (key, at)
);

-- Analysis written from the record, or by the operator (rule 'operator', without inputs).
-- `inputs` is the canonical JSON of what the rule looked at, `inputs_digest` its SHA-256.
CREATE TABLE briefs (
    slug TEXT PRIMARY KEY,
    published_at BIGINT NOT NULL,
    category TEXT NOT NULL,
    headline TEXT NOT NULL,
    coins TEXT NOT NULL,
    summary TEXT NOT NULL,
    body TEXT NOT NULL,
    source TEXT NOT NULL,
    rule TEXT NOT NULL,
    window_start BIGINT NOT NULL,
    window_end BIGINT NOT NULL,
    inputs TEXT NOT NULL,
    inputs_digest TEXT NOT NULL,
    cooldown_key TEXT NOT NULL
);
CREATE INDEX briefs_newest ON briefs (published_at, slug);
CREATE INDEX briefs_by_cooldown ON briefs (cooldown_key, published_at);
