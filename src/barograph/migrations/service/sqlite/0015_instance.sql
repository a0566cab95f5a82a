-- Whether this database holds simulated or real data, and which sources it had used when it was
-- marked. The history beside it needs no mark: this database keeps its last signed root.
CREATE TABLE instance (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    kind TEXT NOT NULL CHECK (kind IN ('demo', 'live')),
    marked_at BIGINT NOT NULL,
    used_before TEXT NOT NULL
);

-- The terms that the operator confirmed, their date, and the statement that was made.
CREATE TABLE terms_confirmations (
    source TEXT PRIMARY KEY,
    terms_date TEXT NOT NULL,
    statement TEXT NOT NULL CHECK (statement IN ('terms', 'consent')),
    confirmed_at BIGINT NOT NULL
);
