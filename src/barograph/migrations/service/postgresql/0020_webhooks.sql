-- Endpoints that events are sent to. They belong to a mailbox, so a new key keeps them.
CREATE TABLE webhooks (
    id TEXT COLLATE "C" PRIMARY KEY,
    mailbox TEXT COLLATE "C" NOT NULL,
    url TEXT COLLATE "C" NOT NULL,
    -- Separated by commas; empty for all.
    types TEXT COLLATE "C" NOT NULL,
    symbols TEXT COLLATE "C" NOT NULL,
    -- Not a digest: every message is signed with it.
    secret TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('pending', 'active', 'failed', 'disabled')),
    created_at BIGINT NOT NULL,
    -- The id of the last event that was delivered or didn't match. Later ones come from the log.
    delivered_up_to BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    failing_since BIGINT,
    next_try_at BIGINT NOT NULL,
    last_delivery_at BIGINT,
    why TEXT COLLATE "C"
);
CREATE INDEX webhooks_by_mailbox ON webhooks (mailbox);
CREATE INDEX webhooks_by_state ON webhooks (state, delivered_up_to);

-- The newest attempts of each endpoint.
CREATE TABLE webhook_deliveries (
    webhook TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    message TEXT COLLATE "C" NOT NULL,
    event BIGINT,
    at BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    status BIGINT,
    failure TEXT COLLATE "C",
    duration_ms BIGINT NOT NULL,
    PRIMARY KEY (webhook, number)
);

-- The Ed25519 key that signs messages to every endpoint, shared by all hosts.
CREATE TABLE webhook_keys (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    private_key TEXT COLLATE "C" NOT NULL
);
