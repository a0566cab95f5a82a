-- Settled funding as the exchange reports it, with every revision: what was reported, and since
-- when. Rows are only ever added.
CREATE TABLE settlement_reports (
    contract TEXT NOT NULL,
    at BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    funding_rate_pct DOUBLE PRECISION NOT NULL CHECK (funding_rate_pct BETWEEN -1e300 AND 1e300),
    read_at BIGINT NOT NULL,
    PRIMARY KEY (contract, at, revision)
);

CREATE TRIGGER settlement_reports_are_not_changed BEFORE UPDATE ON settlement_reports
BEGIN
    SELECT RAISE(ABORT, 'reports of settlements are never changed');
END;

CREATE TRIGGER settlement_reports_are_not_deleted BEFORE DELETE ON settlement_reports
BEGIN
    SELECT RAISE(ABORT, 'reports of settlements are never deleted');
END;

-- Also what keeps a REPLACE, which deletes without that trigger, from taking a revision's place.
CREATE TRIGGER settlement_reports_come_in_order BEFORE INSERT ON settlement_reports
WHEN NEW.revision IS NOT (
    SELECT coalesce(max(revision), 0) + 1 FROM settlement_reports
    WHERE contract = NEW.contract AND at = NEW.at
)
    -- SQLite knows a row by a number of its own too, and would replace by that as well.
    OR EXISTS (SELECT 1 FROM settlement_reports WHERE rowid = NEW.rowid)
BEGIN
    SELECT RAISE(ABORT, 'a report is the next revision of its settlement');
END;

CREATE TRIGGER observations_take_no_place BEFORE INSERT ON observations
WHEN EXISTS (SELECT 1 FROM observations WHERE rowid = NEW.rowid)
BEGIN
    SELECT RAISE(ABORT, 'an observation takes no other one''s place');
END;
