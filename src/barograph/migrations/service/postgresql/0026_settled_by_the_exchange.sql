-- Only the exchange's report says what was settled. Our own last readings before a settlement go.
DROP TABLE settlements;

-- Reports of every contract are kept for 730 days, counted back from the contract's newest one.
CREATE FUNCTION settlement_reports_are_not_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM public.settlement_reports
        WHERE venue = OLD.venue AND contract = OLD.contract AND at > OLD.at + 63072000000
    ) THEN
        RAISE EXCEPTION USING ERRCODE = '23000',
            MESSAGE = 'reports of settlements are not deleted before 730 days';
    END IF;
    RETURN OLD;
END
$$;
DROP TRIGGER settlement_reports_never_change ON settlement_reports;
CREATE TRIGGER settlement_reports_never_change BEFORE UPDATE ON settlement_reports
    FOR EACH ROW EXECUTE FUNCTION refuse('rows of settlement_reports are never changed');
CREATE TRIGGER settlement_reports_are_not_deleted BEFORE DELETE ON settlement_reports
    FOR EACH ROW EXECUTE FUNCTION settlement_reports_are_not_deleted();
ALTER TABLE settlement_reports ENABLE ALWAYS TRIGGER settlement_reports_never_change;
ALTER TABLE settlement_reports ENABLE ALWAYS TRIGGER settlement_reports_are_not_deleted;
