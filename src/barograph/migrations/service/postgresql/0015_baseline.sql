-- The whole schema of the service's database as SQLite's migrations 0001 to 0015 left it; they say
-- what each table is for. Text is compared byte by byte, as SQLite does.

CREATE TABLE snapshots (
    feed TEXT COLLATE "C" PRIMARY KEY,
    version BIGINT NOT NULL,
    payload TEXT COLLATE "C" NOT NULL
);

CREATE TABLE leases (
    name TEXT COLLATE "C" PRIMARY KEY,
    holder TEXT COLLATE "C",
    token BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

CREATE TABLE readings (
    venue TEXT COLLATE "C" NOT NULL,
    resolution TEXT COLLATE "C" NOT NULL CHECK (resolution IN ('minute', 'hour')),
    contract TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    last_price DOUBLE PRECISION NOT NULL,
    funding_rate_pct DOUBLE PRECISION,
    funding_interval_hours DOUBLE PRECISION,
    open_interest_usd DOUBLE PRECISION,
    long_account_pct DOUBLE PRECISION,
    open_interest_coins DOUBLE PRECISION,
    origin TEXT COLLATE "C" NOT NULL CHECK (origin IN ('measured', 'backfilled')),
    PRIMARY KEY (venue, resolution, contract, at)
);
CREATE INDEX readings_by_age ON readings (resolution, at);

CREATE TABLE liquidations (
    venue TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    contract TEXT COLLATE "C" NOT NULL,
    side TEXT COLLATE "C" NOT NULL CHECK (side IN ('long', 'short')),
    size DOUBLE PRECISION NOT NULL,
    price DOUBLE PRECISION NOT NULL,
    origin TEXT COLLATE "C" NOT NULL CHECK (origin IN ('measured', 'backfilled')),
    PRIMARY KEY (venue, at, contract, side, size, price)
);

CREATE TABLE watched_spans (
    venue TEXT COLLATE "C" NOT NULL,
    start_at BIGINT NOT NULL,
    end_at BIGINT NOT NULL,
    origin TEXT COLLATE "C" NOT NULL CHECK (origin IN ('measured', 'backfilled')),
    PRIMARY KEY (venue, start_at)
);

CREATE TABLE regime_changes (
    venue TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    label TEXT COLLATE "C" NOT NULL,
    funding_8h_pct DOUBLE PRECISION,
    origin TEXT COLLATE "C" NOT NULL CHECK (origin IN ('measured', 'backfilled')),
    PRIMARY KEY (venue, at)
);

CREATE TABLE liquidation_hours (
    venue TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    long_usd DOUBLE PRECISION NOT NULL,
    short_usd DOUBLE PRECISION NOT NULL,
    watched_pct DOUBLE PRECISION NOT NULL,
    origin TEXT COLLATE "C" NOT NULL CHECK (origin IN ('measured', 'backfilled')),
    PRIMARY KEY (venue, at)
);

CREATE TABLE settlements (
    venue TEXT COLLATE "C" NOT NULL,
    contract TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    funding_rate_pct DOUBLE PRECISION NOT NULL,
    funding_interval_hours DOUBLE PRECISION NOT NULL,
    read_at BIGINT NOT NULL,
    origin TEXT COLLATE "C" NOT NULL CHECK (origin IN ('measured', 'backfilled')),
    PRIMARY KEY (venue, contract, at)
);

CREATE TABLE settlement_reports (
    venue TEXT COLLATE "C" NOT NULL,
    contract TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    funding_rate_pct DOUBLE PRECISION NOT NULL CHECK (funding_rate_pct BETWEEN -1e300 AND 1e300),
    read_at BIGINT NOT NULL,
    origin TEXT COLLATE "C" NOT NULL CHECK (origin IN ('measured', 'backfilled')),
    PRIMARY KEY (venue, contract, at, revision)
);

CREATE TABLE backfills (
    venue TEXT COLLATE "C" NOT NULL,
    contract TEXT COLLATE "C" NOT NULL,
    start_at BIGINT NOT NULL,
    end_at BIGINT NOT NULL CHECK (end_at > start_at),
    filled_at BIGINT NOT NULL,
    PRIMARY KEY (venue, contract, start_at)
);

CREATE TABLE signal_changes (
    key TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    label TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (key, at)
);

CREATE TABLE briefs (
    slug TEXT COLLATE "C" PRIMARY KEY,
    published_at BIGINT NOT NULL,
    category TEXT COLLATE "C" NOT NULL,
    headline TEXT COLLATE "C" NOT NULL,
    coins TEXT COLLATE "C" NOT NULL,
    summary TEXT COLLATE "C" NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    rule TEXT COLLATE "C" NOT NULL,
    window_start BIGINT NOT NULL,
    window_end BIGINT NOT NULL,
    inputs TEXT COLLATE "C" NOT NULL,
    inputs_digest TEXT COLLATE "C" NOT NULL,
    cooldown_key TEXT COLLATE "C" NOT NULL
);
CREATE INDEX briefs_by_cooldown ON briefs (cooldown_key, published_at);
CREATE INDEX briefs_listed ON briefs (published_at DESC, slug, coins);
CREATE INDEX briefs_of_category ON briefs (category, published_at DESC, slug, coins);

CREATE TABLE observations (
    series TEXT COLLATE "C" NOT NULL,
    day TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL,
    value DOUBLE PRECISION NOT NULL CHECK (value BETWEEN -1e300 AND 1e300),
    source TEXT COLLATE "C" NOT NULL,
    observed_at BIGINT NOT NULL,
    PRIMARY KEY (series, day, revision)
);

CREATE TABLE registrations (
    link_digest TEXT COLLATE "C" PRIMARY KEY,
    email TEXT COLLATE "C" NOT NULL,
    mailbox TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT,
    caller TEXT COLLATE "C" NOT NULL DEFAULT '',
    mailed BIGINT NOT NULL DEFAULT 1
);
CREATE INDEX registrations_by_age ON registrations (expires_at);
CREATE INDEX registrations_by_caller ON registrations (caller, created_at);
CREATE INDEX registrations_by_mailbox ON registrations (mailbox, created_at);

CREATE TABLE api_keys (
    id TEXT COLLATE "C" PRIMARY KEY,
    digest TEXT COLLATE "C" NOT NULL,
    email TEXT COLLATE "C" NOT NULL,
    mailbox TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);
CREATE UNIQUE INDEX api_keys_by_mailbox ON api_keys (mailbox) WHERE revoked_at IS NULL;

CREATE TABLE outbox (
    id TEXT COLLATE "C" PRIMARY KEY,
    recipient TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    next_try_at BIGINT NOT NULL,
    give_up_at BIGINT NOT NULL
);
CREATE INDEX outbox_due ON outbox (next_try_at);

CREATE TABLE entitlements (
    id TEXT COLLATE "C" PRIMARY KEY,
    tier TEXT COLLATE "C" NOT NULL CHECK (tier IN ('feed', 'reserve')),
    holder_kind TEXT COLLATE "C" NOT NULL CHECK (holder_kind IN ('user', 'wallet')),
    holder TEXT COLLATE "C" NOT NULL,
    starts_at BIGINT NOT NULL,
    ends_at BIGINT NOT NULL CHECK (ends_at > starts_at),
    source TEXT COLLATE "C" NOT NULL,
    granted_at BIGINT NOT NULL,
    revoked_at BIGINT
);
CREATE INDEX entitlements_by_holder ON entitlements (holder_kind, holder, tier, ends_at);

CREATE TABLE entitlement_trail (
    sequence BIGINT PRIMARY KEY,
    entitlement_id TEXT COLLATE "C" NOT NULL REFERENCES entitlements (id),
    action TEXT COLLATE "C" NOT NULL CHECK (action IN ('granted', 'extended', 'revoked')),
    at BIGINT NOT NULL,
    ends_at BIGINT NOT NULL,
    by TEXT COLLATE "C" NOT NULL,
    why TEXT COLLATE "C" NOT NULL
);
CREATE INDEX entitlement_trail_by_entitlement ON entitlement_trail (entitlement_id, sequence);

CREATE TABLE payments (
    id TEXT COLLATE "C" PRIMARY KEY,
    network TEXT COLLATE "C" NOT NULL,
    asset TEXT COLLATE "C" NOT NULL,
    payer TEXT COLLATE "C" NOT NULL,
    nonce TEXT COLLATE "C" NOT NULL,
    door TEXT COLLATE "C" NOT NULL,
    -- Stored per payment, because the operator may change the receiving address later.
    pay_to TEXT COLLATE "C" NOT NULL,
    amount TEXT COLLATE "C" NOT NULL,
    valid_before BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL
        CHECK (state IN ('claimed', 'settling', 'settled', 'released', 'failed', 'unknown')),
    claimed_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- Not `transaction`, which is a word of SQL's own.
    transaction_hash TEXT COLLATE "C",
    entitlement_id TEXT COLLATE "C" REFERENCES entitlements (id),
    reason TEXT COLLATE "C",
    released_at BIGINT,
    -- SHA-256 of the signature: payer and nonce are public once the chain has them.
    signature_digest TEXT COLLATE "C" NOT NULL,
    key_digest TEXT COLLATE "C",
    item TEXT COLLATE "C",
    older_open BIGINT NOT NULL DEFAULT 0,
    -- One authorization is one payment, whichever door it is shown at, however often.
    UNIQUE (network, asset, payer, nonce)
);
CREATE INDEX payments_by_state ON payments (state, updated_at);
CREATE UNIQUE INDEX payments_one_open_purchase ON payments (network, asset, payer, older_open)
WHERE door = '/api/x402/feed' AND state IN ('claimed', 'settling', 'unknown');

CREATE TABLE payment_trail (
    sequence BIGINT PRIMARY KEY,
    payment_id TEXT COLLATE "C" NOT NULL REFERENCES payments (id),
    step TEXT COLLATE "C" NOT NULL CHECK (
        step IN (
            'claimed', 'settling', 'settled', 'released', 'failed', 'unknown',
            'delivered', 'undelivered'
        )
    ),
    at BIGINT NOT NULL,
    detail TEXT COLLATE "C"
);
CREATE INDEX payment_trail_by_payment ON payment_trail (payment_id, sequence);

CREATE TABLE signed_heads (
    kind TEXT COLLATE "C" NOT NULL,
    log TEXT COLLATE "C" NOT NULL CHECK (log IN ('versions', 'events')),
    size BIGINT NOT NULL CHECK (size > 0),
    root TEXT COLLATE "C" NOT NULL CHECK (length(root) = 64),
    PRIMARY KEY (kind, log)
);

CREATE TABLE status_counts (
    resolution TEXT COLLATE "C" NOT NULL CHECK (resolution IN ('hour', 'day')),
    name TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    ok BIGINT NOT NULL,
    degraded BIGINT NOT NULL,
    down BIGINT NOT NULL,
    PRIMARY KEY (resolution, name, at)
);
CREATE INDEX status_counts_by_age ON status_counts (resolution, at);

CREATE TABLE status_runs (
    name TEXT COLLATE "C" PRIMARY KEY,
    started_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    worst TEXT COLLATE "C" NOT NULL CHECK (worst IN ('ok', 'degraded', 'down')),
    detail TEXT COLLATE "C" NOT NULL
);

CREATE TABLE status_incidents (
    name TEXT COLLATE "C" NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    worst TEXT COLLATE "C" NOT NULL CHECK (worst IN ('degraded', 'down')),
    detail TEXT COLLATE "C" NOT NULL,
    unwatched_from BIGINT,
    unwatched_until BIGINT,
    unwatched_ms BIGINT NOT NULL,
    PRIMARY KEY (name, started_at)
);
CREATE INDEX status_incidents_by_age ON status_incidents (started_at);
CREATE UNIQUE INDEX status_incidents_open ON status_incidents (name) WHERE ended_at IS NULL;

CREATE TABLE instance (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('demo', 'live')),
    marked_at BIGINT NOT NULL,
    used_before TEXT COLLATE "C" NOT NULL
);

CREATE TABLE terms_confirmations (
    source TEXT COLLATE "C" PRIMARY KEY,
    terms_date TEXT COLLATE "C" NOT NULL,
    statement TEXT COLLATE "C" NOT NULL CHECK (statement IN ('terms', 'consent')),
    confirmed_at BIGINT NOT NULL
);

-- Guards: what is recorded stays as it is. Functions name the schema, so that a temporary table
-- with the same name cannot take a table's place.

CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = '23000', MESSAGE = TG_ARGV[0];
END
$$;

CREATE FUNCTION observations_come_in_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.revision IS DISTINCT FROM (
        SELECT coalesce(max(revision), 0) + 1 FROM public.observations
        WHERE series = NEW.series AND day = NEW.day
    ) THEN
        RAISE EXCEPTION USING ERRCODE = '23000',
            MESSAGE = 'an observation is the next revision of its day';
    END IF;
    RETURN NEW;
END
$$;

CREATE FUNCTION settlement_reports_come_in_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.revision IS DISTINCT FROM (
        SELECT coalesce(max(revision), 0) + 1 FROM public.settlement_reports
        WHERE venue = NEW.venue AND contract = NEW.contract AND at = NEW.at
    ) THEN
        RAISE EXCEPTION USING ERRCODE = '23000',
            MESSAGE = 'a report is the next revision of its settlement';
    END IF;
    RETURN NEW;
END
$$;

CREATE FUNCTION trail_only_at_the_end() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    next_sequence BIGINT;
BEGIN
    EXECUTE format('SELECT coalesce(max(sequence), 0) + 1 FROM public.%I', TG_TABLE_NAME)
        INTO next_sequence;
    IF NEW.sequence IS DISTINCT FROM next_sequence THEN
        RAISE EXCEPTION USING ERRCODE = '23000', MESSAGE = 'a trail only ever grows at its end';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER observations_come_in_order BEFORE INSERT ON observations
    FOR EACH ROW EXECUTE FUNCTION observations_come_in_order();
CREATE TRIGGER settlement_reports_come_in_order BEFORE INSERT ON settlement_reports
    FOR EACH ROW EXECUTE FUNCTION settlement_reports_come_in_order();
CREATE TRIGGER entitlement_trail_only_at_the_end BEFORE INSERT ON entitlement_trail
    FOR EACH ROW EXECUTE FUNCTION trail_only_at_the_end();
CREATE TRIGGER payment_trail_only_at_the_end BEFORE INSERT ON payment_trail
    FOR EACH ROW EXECUTE FUNCTION trail_only_at_the_end();
CREATE TRIGGER payments_are_not_deleted BEFORE DELETE ON payments
    FOR EACH ROW EXECUTE FUNCTION refuse('a payment is never deleted');
CREATE TRIGGER payments_end_once BEFORE UPDATE ON payments
    FOR EACH ROW
    WHEN (OLD.state IN ('settled', 'failed') AND NEW.state IS DISTINCT FROM OLD.state)
    EXECUTE FUNCTION refuse('a payment that is settled or failed stays so');
CREATE TRIGGER payments_keep_their_name BEFORE UPDATE ON payments
    FOR EACH ROW
    WHEN ((NEW.id, NEW.network, NEW.asset, NEW.payer, NEW.nonce)
        IS DISTINCT FROM (OLD.id, OLD.network, OLD.asset, OLD.payer, OLD.nonce))
    EXECUTE FUNCTION refuse('a payment stays the payment of its authorization');

DO $$
DECLARE
    guarded REGCLASS;
    guard NAME;
BEGIN
    FOREACH guarded IN ARRAY ARRAY[
        'observations', 'settlement_reports', 'entitlement_trail', 'payment_trail', 'payments'
    ]::REGCLASS[] LOOP
        EXECUTE format(
            'CREATE TRIGGER %1$s_never_emptied BEFORE TRUNCATE ON %1$s
            FOR EACH STATEMENT EXECUTE FUNCTION refuse(''rows of %1$s are never deleted'')', guarded
        );
        IF guarded <> 'payments'::REGCLASS THEN
            EXECUTE format(
                'CREATE TRIGGER %1$s_never_change BEFORE UPDATE OR DELETE ON %1$s FOR EACH ROW
                EXECUTE FUNCTION refuse(''rows of %1$s are never changed or deleted'')', guarded
            );
        END IF;
        FOR guard IN SELECT tgname FROM pg_trigger WHERE tgrelid = guarded AND NOT tgisinternal LOOP
            -- Also where replication writes.
            EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', guarded, guard);
        END LOOP;
    END LOOP;
END
$$;
