-- The log of events becomes a public Merkle log. Its leaves are the digests, so a text can be removed
-- where the law demands it: then `body` is empty, and `removed` is the reason.
ALTER TABLE events ADD COLUMN digest TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN removed TEXT COLLATE "C" NOT NULL DEFAULT '';
DROP TRIGGER events_never_change ON events;
UPDATE events SET digest = encode(sha256(convert_to(body, 'UTF8')), 'hex');
CREATE INDEX events_by_digest ON events (digest);

CREATE FUNCTION events_only_lose_their_text() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.id, NEW.cause, NEW.type, NEW.at, NEW.digest, NEW.body)
        IS DISTINCT FROM (OLD.id, OLD.cause, OLD.type, OLD.at, OLD.digest, '')
        OR NEW.removed = '' THEN
        RAISE EXCEPTION USING ERRCODE = '23000',
            MESSAGE = 'events are never changed; only their text can be removed';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER events_only_lose_their_text BEFORE UPDATE ON events
    FOR EACH ROW EXECUTE FUNCTION events_only_lose_their_text();
CREATE TRIGGER events_never_go BEFORE DELETE ON events
    FOR EACH ROW EXECUTE FUNCTION refuse('rows of events are never deleted');
ALTER TABLE events ENABLE ALWAYS TRIGGER events_only_lose_their_text;
ALTER TABLE events ENABLE ALWAYS TRIGGER events_never_go;

-- The newest cosignature of each witness on each log, and why the last request failed.
CREATE TABLE cosignatures (
    origin TEXT COLLATE "C" NOT NULL,
    witness TEXT COLLATE "C" NOT NULL,
    size BIGINT NOT NULL,
    root TEXT COLLATE "C" NOT NULL,
    line TEXT COLLATE "C" NOT NULL,
    cosigned_at BIGINT,
    failure TEXT COLLATE "C" NOT NULL,
    -- 1: the witness has seen another tree of this log.
    is_fork BIGINT NOT NULL,
    failing_since BIGINT,
    PRIMARY KEY (origin, witness)
);

-- The checkpoint of each log that is published: the newest that enough witnesses have cosigned.
CREATE TABLE cosigned_checkpoints (
    origin TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    size BIGINT NOT NULL,
    root TEXT COLLATE "C" NOT NULL,
    lines TEXT COLLATE "C" NOT NULL
);
