-- Market data says which venue it is about and where it comes from. `venue` is the name of the
-- exchange's adapter. `origin` says whether we measured a row ourselves or filled it in later from
-- the exchange's own history. SQLite cannot change a primary key, so each table is made again.
ALTER TABLE readings RENAME TO old_readings;
ALTER TABLE liquidations RENAME TO old_liquidations;
ALTER TABLE watched_spans RENAME TO old_watched_spans;
ALTER TABLE regime_changes RENAME TO old_regime_changes;
ALTER TABLE liquidation_hours RENAME TO old_liquidation_hours;
ALTER TABLE settlements RENAME TO old_settlements;
ALTER TABLE settlement_reports RENAME TO old_settlement_reports;

-- The majors by the minute, every contract by the hour. `at` is the start of the minute or hour;
-- its first reading is the one that counts. Open interest is single-sided.
CREATE TABLE readings (
    venue TEXT NOT NULL,
    resolution TEXT NOT NULL CHECK (resolution IN ('minute', 'hour')),
    contract TEXT NOT NULL,
    at BIGINT NOT NULL,
    last_price DOUBLE PRECISION NOT NULL,
    funding_rate_pct DOUBLE PRECISION,
    funding_interval_hours DOUBLE PRECISION,
    open_interest_usd DOUBLE PRECISION,
    long_account_pct DOUBLE PRECISION,
    open_interest_coins DOUBLE PRECISION,
    origin TEXT NOT NULL CHECK (origin IN ('measured', 'backfilled')),
    PRIMARY KEY (venue, resolution, contract, at)
);
INSERT INTO readings
SELECT 'bybit', resolution, contract, at, last_price, funding_rate_pct, funding_interval_hours,
    open_interest_usd, long_account_pct, NULL, 'measured'
FROM old_readings ORDER BY resolution, contract, at;
DROP TABLE old_readings;
CREATE INDEX readings_by_age ON readings (resolution, at);

-- Every liquidation once, however many connections reported it.
CREATE TABLE liquidations (
    venue TEXT NOT NULL,
    at BIGINT NOT NULL,
    contract TEXT NOT NULL,
    side TEXT NOT NULL CHECK (side IN ('long', 'short')),
    size DOUBLE PRECISION NOT NULL,
    price DOUBLE PRECISION NOT NULL,
    origin TEXT NOT NULL CHECK (origin IN ('measured', 'backfilled')),
    PRIMARY KEY (venue, at, contract, side, size, price)
);
INSERT INTO liquidations
SELECT 'bybit', at, contract, side, size, price, 'measured' FROM old_liquidations
ORDER BY at, contract, side, size, price;
DROP TABLE old_liquidations;

-- Spans of time in which we cannot have missed a liquidation. A span grows in place.
CREATE TABLE watched_spans (
    venue TEXT NOT NULL,
    start_at BIGINT NOT NULL,
    end_at BIGINT NOT NULL,
    origin TEXT NOT NULL CHECK (origin IN ('measured', 'backfilled')),
    PRIMARY KEY (venue, start_at)
);
INSERT INTO watched_spans SELECT 'bybit', start_at, end_at, 'measured' FROM old_watched_spans;
DROP TABLE old_watched_spans;

-- Each change of the regime, with the rate that caused it.
CREATE TABLE regime_changes (
    venue TEXT NOT NULL,
    at BIGINT NOT NULL,
    label TEXT NOT NULL,
    funding_8h_pct DOUBLE PRECISION,
    origin TEXT NOT NULL CHECK (origin IN ('measured', 'backfilled')),
    PRIMARY KEY (venue, at)
);
INSERT INTO regime_changes
SELECT 'bybit', at, label, funding_8h_pct, 'measured' FROM old_regime_changes;
DROP TABLE old_regime_changes;

-- Liquidations by the hour.
CREATE TABLE liquidation_hours (
    venue TEXT NOT NULL,
    at BIGINT NOT NULL,
    long_usd DOUBLE PRECISION NOT NULL,
    short_usd DOUBLE PRECISION NOT NULL,
    watched_pct DOUBLE PRECISION NOT NULL,
    origin TEXT NOT NULL CHECK (origin IN ('measured', 'backfilled')),
    PRIMARY KEY (venue, at)
);
INSERT INTO liquidation_hours
SELECT 'bybit', at, long_usd, short_usd, watched_pct, 'measured' FROM old_liquidation_hours;
DROP TABLE old_liquidation_hours;

-- The last rate that we read before each settlement of a major contract.
CREATE TABLE settlements (
    venue TEXT NOT NULL,
    contract TEXT NOT NULL,
    at BIGINT NOT NULL,
    funding_rate_pct DOUBLE PRECISION NOT NULL,
    funding_interval_hours DOUBLE PRECISION NOT NULL,
    read_at BIGINT NOT NULL,
    origin TEXT NOT NULL CHECK (origin IN ('measured', 'backfilled')),
    PRIMARY KEY (venue, contract, at)
);
INSERT INTO settlements
SELECT 'bybit', contract, at, funding_rate_pct, funding_interval_hours, read_at, 'measured'
FROM old_settlements;
DROP TABLE old_settlements;

-- Settled funding as the exchange reports it, with every revision: what was reported, and since
-- when. Rows are only ever added. Dropping the old table also drops its triggers, which the new one
-- gets again below. Reports from before this migration count as measured, because nothing shows
-- which of them we read late.
CREATE TABLE settlement_reports (
    venue TEXT NOT NULL,
    contract TEXT NOT NULL,
    at BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    funding_rate_pct DOUBLE PRECISION NOT NULL CHECK (funding_rate_pct BETWEEN -1e300 AND 1e300),
    read_at BIGINT NOT NULL,
    origin TEXT NOT NULL CHECK (origin IN ('measured', 'backfilled')),
    PRIMARY KEY (venue, contract, at, revision)
);
INSERT INTO settlement_reports
SELECT 'bybit', contract, at, revision, funding_rate_pct, read_at, 'measured'
FROM old_settlement_reports;
DROP TABLE old_settlement_reports;

CREATE TRIGGER settlement_reports_are_not_changed BEFORE UPDATE ON settlement_reports
BEGIN
    SELECT RAISE(ABORT, 'reports of settlements are never changed');
END;

CREATE TRIGGER settlement_reports_are_not_deleted BEFORE DELETE ON settlement_reports
BEGIN
    SELECT RAISE(ABORT, 'reports of settlements are never deleted');
END;

-- A REPLACE deletes without that trigger, so this one also keeps a revision in its place.
CREATE TRIGGER settlement_reports_come_in_order BEFORE INSERT ON settlement_reports
WHEN NEW.revision IS NOT (
    SELECT coalesce(max(revision), 0) + 1 FROM settlement_reports
    WHERE venue = NEW.venue AND contract = NEW.contract AND at = NEW.at
)
    -- SQLite also knows a row by a number of its own, and would replace by that too.
    OR EXISTS (SELECT 1 FROM settlement_reports WHERE rowid = NEW.rowid)
BEGIN
    SELECT RAISE(ABORT, 'a report is the next revision of its settlement');
END;

-- The spans that we asked of an exchange's history, so that nothing is asked twice.
CREATE TABLE backfills (
    venue TEXT NOT NULL,
    contract TEXT NOT NULL,
    start_at BIGINT NOT NULL,
    end_at BIGINT NOT NULL CHECK (end_at > start_at),
    filled_at BIGINT NOT NULL,
    PRIMARY KEY (venue, contract, start_at)
);
