-- Finds the records to lower when an older node joins. The column rarely changes, so updates of the hot row stay heap-only.
CREATE INDEX CONCURRENTLY "runs_by_record_format" ON "runs" USING btree ("record_format") WHERE record_format is not null;
