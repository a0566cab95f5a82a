-- The last signed head of the log of events, in one row with an empty name. It is here because the
-- events are in the service's database: nobody can rewrite them and delete what was signed in one place.
CREATE TABLE event_heads (name TEXT COLLATE "C" PRIMARY KEY, size BIGINT NOT NULL, root TEXT COLLATE "C" NOT NULL);
