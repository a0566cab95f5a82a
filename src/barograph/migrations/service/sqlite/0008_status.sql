-- How each part was found, minute by minute, counted by the hour and by the day (UTC).
-- Minutes in which nobody looked are in no count.
CREATE TABLE status_counts (
    resolution TEXT NOT NULL CHECK (resolution IN ('hour', 'day')),
    name TEXT NOT NULL,
    at BIGINT NOT NULL,
    ok BIGINT NOT NULL,
    degraded BIGINT NOT NULL,
    down BIGINT NOT NULL,
    PRIMARY KEY (resolution, name, at)
);
CREATE INDEX status_counts_by_age ON status_counts (resolution, at);

-- The run of records that a part is in: all ok, or none of them, without a gap.
CREATE TABLE status_runs (
    name TEXT PRIMARY KEY,
    started_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    worst TEXT NOT NULL CHECK (worst IN ('ok', 'degraded', 'down')),
    detail TEXT NOT NULL
);

-- When a part was not ok. What is between `unwatched_from` and `unwatched_until` is known only in
-- part: for `unwatched_ms` of it nobody looked.
CREATE TABLE status_incidents (
    name TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    worst TEXT NOT NULL CHECK (worst IN ('degraded', 'down')),
    detail TEXT NOT NULL,
    unwatched_from BIGINT,
    unwatched_until BIGINT,
    unwatched_ms BIGINT NOT NULL,
    PRIMARY KEY (name, started_at)
);
CREATE INDEX status_incidents_by_age ON status_incidents (started_at);
-- A part has one open incident at most.
CREATE UNIQUE INDEX status_incidents_open ON status_incidents (name) WHERE ended_at IS NULL;
