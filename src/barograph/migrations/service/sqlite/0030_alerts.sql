-- Rules of the owners of personal keys. They belong to a mailbox, so a new key keeps them.
CREATE TABLE alerts (
    id TEXT PRIMARY KEY,
    mailbox TEXT NOT NULL,
    -- The rule as JSON, and where its messages go: `mail` and ids of webhooks, with commas between.
    rule TEXT NOT NULL,
    targets TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('active', 'paused', 'ended')),
    -- Why it is not active, if its owner didn't pause it.
    why TEXT,
    created_at BIGINT NOT NULL,
    -- Grows with every change of any rule, so that the collector sees which ones to read again.
    version BIGINT NOT NULL,
    -- In the link that stops it.
    stop_token TEXT NOT NULL
);
CREATE INDEX alerts_by_mailbox ON alerts (mailbox);
CREATE INDEX alerts_by_version ON alerts (version);
CREATE UNIQUE INDEX alerts_by_stop_token ON alerts (stop_token);

-- On which side of its limit a rule last saw a coin at a venue.
CREATE TABLE alert_states (
    alert TEXT NOT NULL,
    symbol TEXT NOT NULL,
    venue TEXT NOT NULL,
    is_met BIGINT NOT NULL,
    -- When it last fired, which limits how often it may.
    fired_at BIGINT,
    PRIMARY KEY (alert, symbol, venue)
);

-- What fired. The id orders the messages of each target.
CREATE TABLE alert_messages (
    id BIGINT PRIMARY KEY,
    alert TEXT NOT NULL,
    mailbox TEXT NOT NULL,
    -- The time of the reading or event, and when the message was stored.
    at BIGINT NOT NULL,
    stored_at BIGINT NOT NULL,
    -- The facts as JSON, which every format is made of.
    body TEXT NOT NULL,
    -- In the address of its picture.
    token TEXT NOT NULL
);
CREATE INDEX alert_messages_by_alert ON alert_messages (alert, id);
CREATE INDEX alert_messages_by_mailbox ON alert_messages (mailbox, id);
CREATE UNIQUE INDEX alert_messages_by_token ON alert_messages (token);

-- The last message, also if it was deleted since, so that no id is used twice; the last event that
-- the rules were compared with; and the last message that was mailed.
CREATE TABLE alert_position (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    message BIGINT NOT NULL,
    event BIGINT NOT NULL DEFAULT -1,
    mailed BIGINT NOT NULL DEFAULT 0
);

-- Chat services get alerts only, in a format of their own. `json` gets events too.
ALTER TABLE webhooks ADD COLUMN format TEXT NOT NULL DEFAULT 'json';
ALTER TABLE webhooks ADD COLUMN messages_up_to BIGINT NOT NULL DEFAULT 0;

-- The link that stops what a mail is about, and the message whose picture it carries.
ALTER TABLE outbox ADD COLUMN stop_url TEXT;
ALTER TABLE outbox ADD COLUMN message BIGINT;
