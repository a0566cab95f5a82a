-- Only the exchange's report says what was settled. Our own last readings before a settlement go.
DROP TABLE settlements;

-- Reports of every contract are kept for 730 days, counted back from the contract's newest one.
DROP TRIGGER settlement_reports_are_not_deleted;
CREATE TRIGGER settlement_reports_are_not_deleted BEFORE DELETE ON settlement_reports
WHEN NOT EXISTS (
    SELECT 1 FROM settlement_reports
    WHERE venue = OLD.venue AND contract = OLD.contract AND at > OLD.at + 63072000000
)
BEGIN
    SELECT RAISE(ABORT, 'reports of settlements are not deleted before 730 days');
END;
