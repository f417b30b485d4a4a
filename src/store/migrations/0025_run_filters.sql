-- An index for each filter of the list of runs, in the order of the list. None has a column that changes before the run ends.
CREATE INDEX CONCURRENTLY "runs_unfinished" ON "runs" USING btree ("started_at","id") WHERE terminal_at is null;
--> statement-breakpoint
CREATE INDEX CONCURRENTLY "runs_by_ended_as" ON "runs" USING btree ("ended_as","started_at","id") WHERE ended_as is not null;
--> statement-breakpoint
-- The failed runs of a workflow, the question that is asked most.
CREATE INDEX CONCURRENTLY "runs_by_workflow_and_end" ON "runs" USING btree ("workflow_id","ended_as","started_at","id") WHERE ended_as is not null;
--> statement-breakpoint
CREATE INDEX CONCURRENTLY "runs_by_ended_in" ON "runs" USING btree ("ended_in","started_at","id") WHERE ended_in is not null;
--> statement-breakpoint
-- Runs that ended before the columns: none, once the nodes have filled them.
CREATE INDEX CONCURRENTLY "runs_without_end" ON "runs" USING btree ("started_at","id") WHERE terminal_at is not null and ended_as is null;
--> statement-breakpoint
CREATE INDEX CONCURRENTLY "runs_by_version" ON "runs" USING btree ("workflow_id","version","started_at","id");
--> statement-breakpoint
CREATE INDEX CONCURRENTLY "runs_by_tenant" ON "runs" USING btree ("tenant_id","started_at","id") WHERE tenant_id is not null;
--> statement-breakpoint
CREATE INDEX CONCURRENTLY "runs_by_trigger" ON "runs" USING btree ("trigger_id","started_at","id") WHERE trigger_id is not null;
--> statement-breakpoint
CREATE INDEX CONCURRENTLY "runs_of_roots" ON "runs" USING btree ("started_at","id") WHERE parent_run_id is null;
--> statement-breakpoint
CREATE INDEX CONCURRENTLY "runs_in_review" ON "runs" USING btree ("started_at","id") WHERE requires_manual_review;
--> statement-breakpoint
-- The bytes of the key, in which the keys with one beginning are a range.
CREATE INDEX CONCURRENTLY "runs_by_key" ON "runs" USING btree ("business_key" COLLATE "C","started_at","id") WHERE business_key is not null;
