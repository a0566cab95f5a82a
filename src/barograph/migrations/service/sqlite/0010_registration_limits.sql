-- Both limits on registrations are counted here, in the transaction that adds one, so a write that
-- fails uses up neither. `caller` is a keyed hash of the caller's network. `mailed` is 0 where the
-- mailbox had received enough links.
ALTER TABLE registrations ADD COLUMN caller TEXT NOT NULL DEFAULT '';
ALTER TABLE registrations ADD COLUMN mailed BIGINT NOT NULL DEFAULT 1;
CREATE INDEX registrations_by_caller ON registrations (caller, created_at);
CREATE INDEX registrations_by_mailbox ON registrations (mailbox, created_at);
