-- The record, a database of its own, as SQLite's migrations 0001 and 0002 left it: one chain of
-- versions and one of events for each kind. `document` is the canonical JSON that the digest was
-- made of; the other columns repeat parts of it for searches.

CREATE TABLE stance_versions (
    -- The order of recording over all kinds, without a gap. Not a sequence, which would leave gaps.
    position BIGINT PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    sequence BIGINT NOT NULL,
    leg_id TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL CHECK (revision >= 1),
    issued_at BIGINT NOT NULL,
    previous_digest TEXT COLLATE "C" NOT NULL CHECK (length(previous_digest) = 64),
    history_digest TEXT COLLATE "C" NOT NULL CHECK (length(history_digest) = 64),
    document TEXT COLLATE "C" NOT NULL,
    UNIQUE (kind, sequence),
    UNIQUE (kind, leg_id, revision)
);

CREATE TABLE stance_events (
    position BIGINT PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    sequence BIGINT NOT NULL,
    at BIGINT NOT NULL,
    version_sequence BIGINT NOT NULL,
    previous_digest TEXT COLLATE "C" NOT NULL CHECK (length(previous_digest) = 64),
    event_digest TEXT COLLATE "C" NOT NULL CHECK (length(event_digest) = 64),
    document TEXT COLLATE "C" NOT NULL,
    UNIQUE (kind, sequence)
);

-- The highest lease token that a leader showed; a leader with a lower one has been replaced.
CREATE TABLE fences (
    name TEXT COLLATE "C" PRIMARY KEY,
    token BIGINT NOT NULL
);

-- What is recorded stays as it is. Functions name the schema and set their search path, so that no
-- table, function or operator of another schema can take the place of the one that is meant.
-- Triggers fire ALWAYS, also where replication writes. Functions and triggers are written as
-- PostgreSQL prints them, because the service compares them at every start.

CREATE OR REPLACE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql
SET search_path TO 'pg_catalog' AS $function$
BEGIN
    RAISE EXCEPTION USING ERRCODE = '23000', MESSAGE = TG_ARGV[0];
END
$function$;

CREATE OR REPLACE FUNCTION public.stance_versions_only_at_the_end() RETURNS trigger LANGUAGE plpgsql
SET search_path TO 'pg_catalog' AS $function$
BEGIN
    IF NEW.position IS DISTINCT FROM (
        SELECT coalesce(max(position), 0) + 1 FROM public.stance_versions
    )
    OR NEW.sequence IS DISTINCT FROM (
        SELECT coalesce(max(sequence), 0) + 1 FROM public.stance_versions WHERE kind = NEW.kind
    )
    OR NEW.previous_digest IS DISTINCT FROM coalesce(
        (
            SELECT history_digest FROM public.stance_versions
            WHERE kind = NEW.kind ORDER BY sequence DESC LIMIT 1
        ),
        repeat('0', 64)
    )
    THEN
        RAISE EXCEPTION USING ERRCODE = '23000',
            MESSAGE = 'a version is only ever added at the end of its chain';
    END IF;
    RETURN NEW;
END
$function$;

CREATE OR REPLACE FUNCTION public.stance_events_only_at_the_end() RETURNS trigger LANGUAGE plpgsql
SET search_path TO 'pg_catalog' AS $function$
BEGIN
    IF NEW.position IS DISTINCT FROM (
        SELECT coalesce(max(position), 0) + 1 FROM public.stance_events
    )
    OR NEW.sequence IS DISTINCT FROM (
        SELECT coalesce(max(sequence), 0) + 1 FROM public.stance_events WHERE kind = NEW.kind
    )
    OR NEW.previous_digest IS DISTINCT FROM coalesce(
        (
            SELECT event_digest FROM public.stance_events
            WHERE kind = NEW.kind ORDER BY sequence DESC LIMIT 1
        ),
        repeat('0', 64)
    )
    OR NEW.version_sequence IS DISTINCT FROM (
        SELECT max(sequence) FROM public.stance_versions WHERE kind = NEW.kind
    )
    THEN
        RAISE EXCEPTION USING ERRCODE = '23000',
            MESSAGE = 'an event is only ever added at the end of its chain';
    END IF;
    RETURN NEW;
END
$function$;

CREATE TRIGGER stance_versions_only_at_the_end BEFORE INSERT ON public.stance_versions
    FOR EACH ROW EXECUTE FUNCTION public.stance_versions_only_at_the_end();
ALTER TABLE stance_versions ENABLE ALWAYS TRIGGER stance_versions_only_at_the_end;
CREATE TRIGGER stance_versions_never_change BEFORE UPDATE ON public.stance_versions
    FOR EACH ROW EXECUTE FUNCTION public.refuse('a recorded version never changes');
ALTER TABLE stance_versions ENABLE ALWAYS TRIGGER stance_versions_never_change;
CREATE TRIGGER stance_versions_never_go BEFORE DELETE ON public.stance_versions
    FOR EACH ROW EXECUTE FUNCTION public.refuse('a recorded version is never deleted');
ALTER TABLE stance_versions ENABLE ALWAYS TRIGGER stance_versions_never_go;
CREATE TRIGGER stance_versions_never_emptied BEFORE TRUNCATE ON public.stance_versions
    FOR EACH STATEMENT EXECUTE FUNCTION public.refuse('a recorded version is never deleted');
ALTER TABLE stance_versions ENABLE ALWAYS TRIGGER stance_versions_never_emptied;
CREATE TRIGGER stance_events_only_at_the_end BEFORE INSERT ON public.stance_events
    FOR EACH ROW EXECUTE FUNCTION public.stance_events_only_at_the_end();
ALTER TABLE stance_events ENABLE ALWAYS TRIGGER stance_events_only_at_the_end;
CREATE TRIGGER stance_events_never_change BEFORE UPDATE ON public.stance_events
    FOR EACH ROW EXECUTE FUNCTION public.refuse('a recorded event never changes');
ALTER TABLE stance_events ENABLE ALWAYS TRIGGER stance_events_never_change;
CREATE TRIGGER stance_events_never_go BEFORE DELETE ON public.stance_events
    FOR EACH ROW EXECUTE FUNCTION public.refuse('a recorded event is never deleted');
ALTER TABLE stance_events ENABLE ALWAYS TRIGGER stance_events_never_go;
CREATE TRIGGER stance_events_never_emptied BEFORE TRUNCATE ON public.stance_events
    FOR EACH STATEMENT EXECUTE FUNCTION public.refuse('a recorded event is never deleted');
ALTER TABLE stance_events ENABLE ALWAYS TRIGGER stance_events_never_emptied;
