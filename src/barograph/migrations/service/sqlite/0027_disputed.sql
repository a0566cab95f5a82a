-- Which measures of a reading comparison with the other venues found wrong, by their names with
-- commas between them, such as `funding,price`; empty for none. Rows from before were not marked.
ALTER TABLE readings ADD COLUMN disputed TEXT NOT NULL DEFAULT '';
