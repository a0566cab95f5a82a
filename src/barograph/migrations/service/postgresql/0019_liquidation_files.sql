-- One file per venue and day with every liquidation that we recorded; made once, never changed.
CREATE TABLE liquidation_files (
    venue TEXT COLLATE "C" NOT NULL,
    -- The UTC day, such as 2026-11-14.
    day TEXT COLLATE "C" NOT NULL,
    made_at BIGINT NOT NULL,
    row_count BIGINT NOT NULL,
    byte_count BIGINT NOT NULL,
    sha256 TEXT COLLATE "C" NOT NULL,
    -- The spans that were watched, as JSON: [[start, end], …] in milliseconds.
    watched TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (venue, day)
);

-- The bytes of a file as Base64, in parts small enough to be read, copied and backed up by pages.
CREATE TABLE liquidation_file_parts (
    venue TEXT COLLATE "C" NOT NULL,
    day TEXT COLLATE "C" NOT NULL,
    part BIGINT NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (venue, day, part)
);

-- The liquidations of one contract, without reading those of all the others.
CREATE INDEX liquidations_by_contract ON liquidations (venue, contract, at, side, size, price);
