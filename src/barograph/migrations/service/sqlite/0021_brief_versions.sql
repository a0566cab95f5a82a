-- A rule that finds the same again within two days updates its brief: the slug stays, the text and
-- its time change. NULL: never updated.
ALTER TABLE briefs ADD COLUMN version BIGINT NOT NULL DEFAULT 1;
ALTER TABLE briefs ADD COLUMN first_published_at BIGINT;

-- The earlier texts of updated briefs, as they were; rows are only ever added.
CREATE TABLE brief_versions (
    slug TEXT NOT NULL,
    published_at BIGINT NOT NULL,
    category TEXT NOT NULL,
    headline TEXT NOT NULL,
    coins TEXT NOT NULL,
    summary TEXT NOT NULL,
    body TEXT NOT NULL,
    source TEXT NOT NULL,
    rule TEXT NOT NULL,
    window_start BIGINT NOT NULL,
    window_end BIGINT NOT NULL,
    inputs TEXT NOT NULL,
    inputs_digest TEXT NOT NULL,
    cooldown_key TEXT NOT NULL,
    version BIGINT NOT NULL,
    first_published_at BIGINT,
    PRIMARY KEY (slug, version)
);
CREATE INDEX brief_versions_by_time ON brief_versions (published_at);

CREATE TRIGGER brief_versions_are_not_changed BEFORE UPDATE ON brief_versions
BEGIN
    SELECT RAISE(ABORT, 'earlier texts of briefs are never changed');
END;

CREATE TRIGGER brief_versions_are_not_deleted BEFORE DELETE ON brief_versions
BEGIN
    SELECT RAISE(ABORT, 'earlier texts of briefs are never deleted');
END;
