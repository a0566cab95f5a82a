-- One public log remains, that of events. The last signed heads of the six logs of stances stay here
-- until the collector has appended them to it. `name` is the part of their origins after `history`.
ALTER TABLE signed_heads RENAME TO merged_heads;
DELETE FROM merged_heads WHERE kind = 'events';
ALTER TABLE merged_heads ADD COLUMN name TEXT NOT NULL DEFAULT '';
UPDATE merged_heads
SET name = coalesce((SELECT json_extract(keys, '$.name') FROM history_origin), '');
-- After some restores, the log of events had a name of its own.
UPDATE history_origin SET keys = json_set(keys, '$.name', json_extract(keys, '$.events'))
WHERE json_extract(keys, '$.events') <> '';
DELETE FROM cosignatures WHERE origin LIKE '%/history%/rates-desk%'
    OR origin LIKE '%/history%/btc-etf-stance%' OR origin LIKE '%/history%/funding-regime-stance%';
DELETE FROM cosigned_checkpoints WHERE origin LIKE '%/history%/rates-desk%'
    OR origin LIKE '%/history%/btc-etf-stance%' OR origin LIKE '%/history%/funding-regime-stance%';
