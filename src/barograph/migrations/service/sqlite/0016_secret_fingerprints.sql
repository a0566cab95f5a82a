-- Keyed hashes of the secrets that every host must share. SQLite is used by one host, so only
-- PostgreSQL's table has rows.
CREATE TABLE secret_fingerprints (
    name TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL CHECK (length(fingerprint) = 64)
);
