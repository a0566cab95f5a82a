-- Keyed hashes of the secrets that every host must share.
CREATE TABLE secret_fingerprints (
    name TEXT COLLATE "C" PRIMARY KEY,
    fingerprint TEXT COLLATE "C" NOT NULL CHECK (length(fingerprint) = 64)
);
