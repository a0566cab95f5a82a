-- One log of what changed, for readers and subscribers; rows are only ever added.
CREATE TABLE events (
    -- 1, 2, 3 … without a gap, which a sequence of the database would not give.
    id BIGINT PRIMARY KEY,
    -- What the event is about, so that it is recorded once: `stance.recorded/KIND/SEQUENCE`.
    cause TEXT COLLATE "C" NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    -- The whole event as canonical JSON (RFC 8785), so that the log can be chained later.
    body TEXT COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX events_by_cause ON events (cause);

CREATE FUNCTION events_only_at_the_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id IS DISTINCT FROM (SELECT coalesce(max(id), 0) + 1 FROM public.events) THEN
        RAISE EXCEPTION USING ERRCODE = '23000',
            MESSAGE = 'the log of events only ever grows at its end';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER events_only_at_the_end BEFORE INSERT ON events
    FOR EACH ROW EXECUTE FUNCTION events_only_at_the_end();
CREATE TRIGGER events_never_change BEFORE UPDATE OR DELETE ON events
    FOR EACH ROW EXECUTE FUNCTION refuse('rows of events are never changed or deleted');
CREATE TRIGGER events_never_emptied BEFORE TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse('rows of events are never deleted');
ALTER TABLE events ENABLE ALWAYS TRIGGER events_only_at_the_end;
ALTER TABLE events ENABLE ALWAYS TRIGGER events_never_change;
ALTER TABLE events ENABLE ALWAYS TRIGGER events_never_emptied;
