-- Who asked for a key by e-mail. The link that was mailed is known only by its digest.
-- `mailbox` is the address as people who share it would write it: lower case, without a +tag.
CREATE TABLE registrations (
    link_digest TEXT PRIMARY KEY,
    email TEXT NOT NULL,
    mailbox TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT
);
CREATE INDEX registrations_by_age ON registrations (expires_at);

-- Personal keys: `digest` is an HMAC of the whole key under the instance's pepper.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    email TEXT NOT NULL,
    mailbox TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);
-- One key that works for each mailbox.
CREATE UNIQUE INDEX api_keys_by_mailbox ON api_keys (mailbox) WHERE revoked_at IS NULL;

-- Mails that are still to be sent; a mail that was sent, or given up, is deleted.
CREATE TABLE outbox (
    id TEXT PRIMARY KEY,
    recipient TEXT NOT NULL,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    next_try_at BIGINT NOT NULL,
    give_up_at BIGINT NOT NULL
);
CREATE INDEX outbox_due ON outbox (next_try_at);
