-- Lists of briefs, page by page: newest first, those of one instant by their address. Both indexes
-- hold what a list is chosen by, so that counting and skipping read no brief.
CREATE INDEX briefs_listed ON briefs (published_at DESC, slug, coins);
CREATE INDEX briefs_of_category ON briefs (category, published_at DESC, slug, coins);
DROP INDEX briefs_newest;
