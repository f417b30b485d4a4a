-- An index for each of the new filters of the list, in its order. None has a column that changes with every wait.
CREATE INDEX CONCURRENTLY "runs_by_ended_with" ON "runs" USING btree ("ended_with","started_at","id") WHERE ended_with <> '';
--> statement-breakpoint
CREATE INDEX CONCURRENTLY "runs_held" ON "runs" USING btree ("held_as","started_at","id") WHERE held_as is not null;
--> statement-breakpoint
-- Runs that ended before the column: none, once the nodes have filled it.
CREATE INDEX CONCURRENTLY "runs_without_code" ON "runs" USING btree ("started_at","id") WHERE terminal_at is not null and ended_with is null;
