-- The last signed head of the log of events. It is here because the events are in the service's
-- database: someone who can rewrite them must not be able to make us forget what we signed. A log
-- that begins again has another name.
CREATE TABLE event_heads (
    name TEXT PRIMARY KEY,
    size BIGINT NOT NULL,
    root TEXT NOT NULL
);
