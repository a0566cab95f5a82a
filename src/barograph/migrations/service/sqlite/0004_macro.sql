-- Daily figures with every revision: what was known, and since when. Rows are only ever added.
CREATE TABLE observations (
    series TEXT NOT NULL,
    day TEXT NOT NULL,
    revision BIGINT NOT NULL,
    value DOUBLE PRECISION NOT NULL CHECK (value BETWEEN -1e300 AND 1e300),
    source TEXT NOT NULL,
    observed_at BIGINT NOT NULL,
    PRIMARY KEY (series, day, revision)
);

CREATE TRIGGER observations_are_not_changed BEFORE UPDATE ON observations
BEGIN
    SELECT RAISE(ABORT, 'observations are never changed');
END;

CREATE TRIGGER observations_are_not_deleted BEFORE DELETE ON observations
BEGIN
    SELECT RAISE(ABORT, 'observations are never deleted');
END;

-- Also what keeps a REPLACE, which deletes without that trigger, from taking a revision's place.
CREATE TRIGGER observations_come_in_order BEFORE INSERT ON observations
WHEN NEW.revision IS NOT (
    SELECT coalesce(max(revision), 0) + 1 FROM observations
    WHERE series = NEW.series AND day = NEW.day
)
BEGIN
    SELECT RAISE(ABORT, 'an observation is the next revision of its day');
END;
