-- How triggers and their fires are found.
CREATE INDEX CONCURRENTLY "triggers_by_transition" ON "triggers" USING btree ((config->>'record_type'),(config->>'from_state'),(config->>'to_state')) WHERE trigger_type = 'record_transition' and enabled;
--> statement-breakpoint
CREATE INDEX CONCURRENTLY "trigger_fires_by_trigger" ON "trigger_fires" USING btree ("trigger_id","fired_at","id");
--> statement-breakpoint
CREATE INDEX CONCURRENTLY "trigger_fires_due" ON "trigger_fires" USING btree ("due_at") WHERE due_at is not null;
--> statement-breakpoint
CREATE INDEX CONCURRENTLY "trigger_fires_by_time" ON "trigger_fires" USING btree ("fired_at");
