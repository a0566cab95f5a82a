-- Every spelling of a Gmail address is one mailbox: dots don't count, and googlemail.com is
-- gmail.com. Earlier versions stored such addresses as mailboxes of their own. Of several working
-- keys of one mailbox the newest stays; the others end when it was made.
UPDATE api_keys SET revoked_at = spelled.newest
FROM (
    SELECT id, max(created_at) OVER same AS newest,
        row_number() OVER (same ORDER BY created_at DESC, id DESC) AS place
    FROM api_keys
    WHERE revoked_at IS NULL AND (mailbox LIKE '%@gmail.com' OR mailbox LIKE '%@googlemail.com')
    WINDOW same AS (PARTITION BY replace(substr(mailbox, 1, instr(mailbox, '@')), '.', ''))
) AS spelled
WHERE api_keys.id = spelled.id AND spelled.place > 1;

UPDATE api_keys
SET mailbox = replace(substr(mailbox, 1, instr(mailbox, '@')), '.', '') || 'gmail.com'
WHERE mailbox LIKE '%@gmail.com' OR mailbox LIKE '%@googlemail.com';

UPDATE registrations
SET mailbox = replace(substr(mailbox, 1, instr(mailbox, '@')), '.', '') || 'gmail.com'
WHERE mailbox LIKE '%@gmail.com' OR mailbox LIKE '%@googlemail.com';
