-- What is recorded stays as it is. Refusing UPDATE and DELETE is not enough: REPLACE takes rows
-- away without asking a trigger, so a row may only ever be added at the end of everything.

CREATE TRIGGER stance_versions_only_at_the_end BEFORE INSERT ON stance_versions
WHEN NEW.position IS NOT (SELECT coalesce(max(position), 0) + 1 FROM stance_versions)
    OR NEW.sequence IS NOT (
        SELECT coalesce(max(sequence), 0) + 1 FROM stance_versions WHERE kind = NEW.kind
    )
    OR NEW.previous_digest IS NOT coalesce(
        (
            SELECT history_digest FROM stance_versions
            WHERE kind = NEW.kind ORDER BY sequence DESC LIMIT 1
        ),
        '0000000000000000000000000000000000000000000000000000000000000000'
    )
    OR EXISTS (
        SELECT 1 FROM stance_versions
        WHERE kind = NEW.kind AND leg_id = NEW.leg_id AND revision = NEW.revision
    )
BEGIN
    SELECT RAISE(ABORT, 'a version is only ever added at the end of its chain');
END;

CREATE TRIGGER stance_versions_never_change BEFORE UPDATE ON stance_versions
BEGIN
    SELECT RAISE(ABORT, 'a recorded version never changes');
END;

CREATE TRIGGER stance_versions_never_go BEFORE DELETE ON stance_versions
BEGIN
    SELECT RAISE(ABORT, 'a recorded version is never deleted');
END;

CREATE TRIGGER stance_events_only_at_the_end BEFORE INSERT ON stance_events
WHEN NEW.position IS NOT (SELECT coalesce(max(position), 0) + 1 FROM stance_events)
    OR NEW.sequence IS NOT (
        SELECT coalesce(max(sequence), 0) + 1 FROM stance_events WHERE kind = NEW.kind
    )
    OR NEW.previous_digest IS NOT coalesce(
        (
            SELECT event_digest FROM stance_events
            WHERE kind = NEW.kind ORDER BY sequence DESC LIMIT 1
        ),
        '0000000000000000000000000000000000000000000000000000000000000000'
    )
    OR NEW.version_sequence IS NOT (
        SELECT max(sequence) FROM stance_versions WHERE kind = NEW.kind
    )
BEGIN
    SELECT RAISE(ABORT, 'an event is only ever added at the end of its chain');
END;

CREATE TRIGGER stance_events_never_change BEFORE UPDATE ON stance_events
BEGIN
    SELECT RAISE(ABORT, 'a recorded event never changes');
END;

CREATE TRIGGER stance_events_never_go BEFORE DELETE ON stance_events
BEGIN
    SELECT RAISE(ABORT, 'a recorded event is never deleted');
END;
