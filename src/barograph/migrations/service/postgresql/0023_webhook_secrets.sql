-- The secret before the current one, which also signs until then.
ALTER TABLE webhooks ADD COLUMN previous_secret TEXT COLLATE "C";
ALTER TABLE webhooks ADD COLUMN previous_until BIGINT NOT NULL DEFAULT 0;
