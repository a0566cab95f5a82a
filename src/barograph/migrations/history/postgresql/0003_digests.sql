-- A buyer looks up the proof of a version by its digest.
CREATE INDEX stance_versions_by_digest ON stance_versions (history_digest);
