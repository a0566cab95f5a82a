-- The name and the key of the published logs, whether signing waits for a comparison after a restore,
-- and the keys that signed before: one JSON object. Without a row, nothing was signed or restored.
CREATE TABLE history_origin (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    keys TEXT NOT NULL
);
