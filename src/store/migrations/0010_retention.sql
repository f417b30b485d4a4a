-- What retention deletes is found by an index: ended runs, and recorded answers that are not kept with their run.
CREATE INDEX CONCURRENTLY "runs_by_end" ON "runs" USING btree ("terminal_at","id") WHERE terminal_at is not null;--> statement-breakpoint
CREATE INDEX CONCURRENTLY "run_commands_expiring" ON "run_commands" USING btree ("at") WHERE not keep;
