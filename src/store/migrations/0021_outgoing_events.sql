-- Events that runs owe to RabbitMQ, in the order of their commits. A row without a topic is an event of the table "events".
CREATE TABLE "outgoing_events" (
	"id" uuid PRIMARY KEY NOT NULL,
	"ordinal" bigserial NOT NULL,
	"run_id" uuid NOT NULL,
	"shard" smallint NOT NULL,
	"topic" text,
	"payload" json
);
--> statement-breakpoint
ALTER TABLE "outgoing_events" SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
--> statement-breakpoint
CREATE INDEX "outgoing_events_by_shard" ON "outgoing_events" USING btree ("shard","ordinal");
