-- Spans of time in which the sides of a venue's liquidations were disputed. A span grows in place.
-- They are kept for good, as the sums of hours and the daily files that they mark.
CREATE TABLE disputed_sides (
    venue TEXT NOT NULL,
    start_at BIGINT NOT NULL,
    end_at BIGINT NOT NULL,
    PRIMARY KEY (venue, start_at)
);
