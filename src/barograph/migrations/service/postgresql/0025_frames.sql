-- All contracts of a venue every five minutes, for a little more than 7 days: what changes of 24
-- hours and of 7 days compare with.
CREATE TABLE frames (
    venue TEXT COLLATE "C" NOT NULL,
    -- The time of the reading.
    at BIGINT NOT NULL,
    -- JSON, compressed with zlib, as Base64: [price, open interest in USD, in coins, funding in
    -- percent per 8 hours] by contract.
    body TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (venue, at)
);
