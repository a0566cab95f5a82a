-- One log of what changed, for readers and subscribers; rows are only ever added.
CREATE TABLE events (
    -- 1, 2, 3 … without a gap. On SQLite the row's own address.
    id INTEGER PRIMARY KEY,
    -- What the event is about, so that it is recorded once: `stance.recorded/KIND/SEQUENCE`.
    cause TEXT NOT NULL,
    type TEXT NOT NULL,
    at BIGINT NOT NULL,
    -- The whole event as canonical JSON (RFC 8785), so that the log can be chained later.
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX events_by_cause ON events (cause);

CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are never changed');
END;

CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are never deleted');
END;

-- Also what keeps a REPLACE, which deletes without that trigger, from taking an event's place.
CREATE TRIGGER events_only_at_the_end BEFORE INSERT ON events
WHEN NEW.id IS NOT (SELECT coalesce(max(id), 0) + 1 FROM events)
    OR EXISTS (SELECT 1 FROM events WHERE cause = NEW.cause)
BEGIN
    SELECT RAISE(ABORT, 'the log of events only ever grows at its end, once per cause');
END;
