-- The size and root that a checkpoint was last signed for, for each list of the history. It is here
-- and not in the history's own database, so that rewriting the history does not rewrite this too.
CREATE TABLE signed_heads (
    kind TEXT NOT NULL,
    log TEXT NOT NULL CHECK (log IN ('versions', 'events')),
    size BIGINT NOT NULL CHECK (size > 0),
    root TEXT NOT NULL CHECK (length(root) = 64),
    PRIMARY KEY (kind, log)
);
