-- The name and the key of the published logs. After a restore, `held_since` is its time, and nothing
-- is signed until the record was compared. Without a row, nothing was signed or restored yet.
CREATE TABLE history_origin (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    name TEXT NOT NULL,
    public_key TEXT CHECK (length(public_key) = 64),
    held_since BIGINT
);

-- The public keys that signed before, with the last checkpoints of each, which name its successor.
CREATE TABLE retired_history_keys (
    number BIGINT PRIMARY KEY,
    public_key TEXT NOT NULL UNIQUE CHECK (length(public_key) = 64),
    name TEXT NOT NULL,
    retired_at BIGINT NOT NULL,
    checkpoints TEXT NOT NULL
);
