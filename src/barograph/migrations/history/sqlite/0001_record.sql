-- The record, a database of its own: one chain of versions and one of events for each kind.
-- `document` is the canonical JSON that the digest was made of; the other columns say the same
-- again for the searches that need it. A table here is never rebuilt: that would drop its guards.

CREATE TABLE stance_versions (
    -- The order of recording over all kinds, without a gap. On SQLite the row's own address, so
    -- that no other one is left by which a row could be replaced.
    position INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    leg_id TEXT NOT NULL,
    revision BIGINT NOT NULL CHECK (revision >= 1),
    issued_at BIGINT NOT NULL,
    previous_digest TEXT NOT NULL CHECK (length(previous_digest) = 64),
    history_digest TEXT NOT NULL CHECK (length(history_digest) = 64),
    document TEXT NOT NULL,
    UNIQUE (kind, sequence),
    UNIQUE (kind, leg_id, revision)
);

CREATE TABLE stance_events (
    position INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    at BIGINT NOT NULL,
    version_sequence BIGINT NOT NULL,
    previous_digest TEXT NOT NULL CHECK (length(previous_digest) = 64),
    event_digest TEXT NOT NULL CHECK (length(event_digest) = 64),
    document TEXT NOT NULL,
    UNIQUE (kind, sequence)
);

-- The highest lease token that a leader showed; whoever has a lower one has been replaced.
CREATE TABLE fences (
    name TEXT PRIMARY KEY,
    token BIGINT NOT NULL
);
