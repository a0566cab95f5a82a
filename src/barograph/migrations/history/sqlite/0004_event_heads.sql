-- The last signed head of each log of events, by its name. It is here because the events are in the
-- service's database: nobody may rewrite them and delete what was signed in one place.
CREATE TABLE event_heads (name TEXT PRIMARY KEY, size BIGINT NOT NULL, root TEXT NOT NULL);
