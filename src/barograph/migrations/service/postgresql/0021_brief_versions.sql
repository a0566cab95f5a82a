-- A rule that finds the same again within two days updates its brief: the slug stays, the text and
-- its time change. NULL: never updated.
ALTER TABLE briefs ADD COLUMN version BIGINT NOT NULL DEFAULT 1;
ALTER TABLE briefs ADD COLUMN first_published_at BIGINT;

-- The earlier texts of updated briefs, as they were; rows are only ever added.
CREATE TABLE brief_versions (
    slug TEXT COLLATE "C" NOT NULL,
    published_at BIGINT NOT NULL,
    category TEXT COLLATE "C" NOT NULL,
    headline TEXT COLLATE "C" NOT NULL,
    coins TEXT COLLATE "C" NOT NULL,
    summary TEXT COLLATE "C" NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    rule TEXT COLLATE "C" NOT NULL,
    window_start BIGINT NOT NULL,
    window_end BIGINT NOT NULL,
    inputs TEXT COLLATE "C" NOT NULL,
    inputs_digest TEXT COLLATE "C" NOT NULL,
    cooldown_key TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    first_published_at BIGINT,
    PRIMARY KEY (slug, version)
);
CREATE INDEX brief_versions_by_time ON brief_versions (published_at);

CREATE TRIGGER brief_versions_never_change BEFORE UPDATE OR DELETE ON brief_versions
    FOR EACH ROW EXECUTE FUNCTION refuse('earlier texts of briefs are never changed or deleted');
CREATE TRIGGER brief_versions_never_emptied BEFORE TRUNCATE ON brief_versions
    FOR EACH STATEMENT EXECUTE FUNCTION refuse('earlier texts of briefs are never deleted');
ALTER TABLE brief_versions ENABLE ALWAYS TRIGGER brief_versions_never_change;
ALTER TABLE brief_versions ENABLE ALWAYS TRIGGER brief_versions_never_emptied;
