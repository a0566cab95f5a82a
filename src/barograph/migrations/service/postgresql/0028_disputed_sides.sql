-- When the sides of liquidations were disputed; kept for good, as the hours and files it marks.
CREATE TABLE disputed_sides (
    venue TEXT COLLATE "C" NOT NULL,
    start_at BIGINT NOT NULL,
    end_at BIGINT NOT NULL,
    PRIMARY KEY (venue, start_at)
);
