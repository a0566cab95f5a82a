-- Whether this database holds simulated or real data. The history beside it needs no mark of its
-- own: this database keeps its last signed root, and a folder has one of each.
CREATE TABLE instance (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    kind TEXT NOT NULL CHECK (kind IN ('demo', 'live')),
    created_at BIGINT NOT NULL,
    grace_until BIGINT
);

-- Which terms of data sources the operator confirmed: those of which date, and what was stated.
CREATE TABLE terms_confirmations (
    source TEXT NOT NULL,
    terms_date TEXT NOT NULL,
    statement TEXT NOT NULL CHECK (statement IN ('terms', 'consent')),
    confirmed_at BIGINT NOT NULL,
    revoked_at BIGINT
);

CREATE UNIQUE INDEX terms_confirmed ON terms_confirmations (source) WHERE revoked_at IS NULL;
