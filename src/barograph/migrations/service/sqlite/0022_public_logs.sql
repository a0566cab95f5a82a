-- The log of events becomes a public Merkle log. Its leaves are the digests, so a text can be removed
-- where the law demands it: then `body` is empty, and `removed` is the reason.
ALTER TABLE events ADD COLUMN digest TEXT NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN removed TEXT NOT NULL DEFAULT '';
DROP TRIGGER events_are_not_changed;
UPDATE events SET digest = sha256_hex(body);
CREATE INDEX events_by_digest ON events (digest);

CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
WHEN NEW.id IS NOT OLD.id OR NEW.cause IS NOT OLD.cause OR NEW.type IS NOT OLD.type
    OR NEW.at IS NOT OLD.at OR NEW.digest IS NOT OLD.digest
    OR NEW.body IS NOT '' OR NEW.removed IS ''
BEGIN
    SELECT RAISE(ABORT, 'events are never changed; only their text can be removed');
END;

-- The newest cosignature of each witness on each log, and why the last request failed.
CREATE TABLE cosignatures (
    origin TEXT NOT NULL,
    witness TEXT NOT NULL,
    size BIGINT NOT NULL,
    root TEXT NOT NULL,
    line TEXT NOT NULL,
    cosigned_at BIGINT,
    failure TEXT NOT NULL,
    -- 1: the witness has seen another tree of this log.
    is_fork BIGINT NOT NULL,
    failing_since BIGINT,
    PRIMARY KEY (origin, witness)
);

-- The checkpoint of each log that is published: the newest that enough witnesses have cosigned.
CREATE TABLE cosigned_checkpoints (
    origin TEXT NOT NULL PRIMARY KEY,
    size BIGINT NOT NULL,
    root TEXT NOT NULL,
    lines TEXT NOT NULL
);
