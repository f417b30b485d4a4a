-- Bulk jobs: an act on all runs that matched a filter when the job was created. Its targets are rows of their own, written in the statement that
-- creates the job. The counts of a job change with every batch of acts, so no index has them.
CREATE TABLE "bulk_jobs" (
	"id" uuid PRIMARY KEY NOT NULL,
	"shard" smallint NOT NULL,
	"action" text NOT NULL,
	"filter" json NOT NULL,
	"params" json NOT NULL,
	"state" text NOT NULL,
	"matched" integer NOT NULL,
	"done" integer DEFAULT 0 NOT NULL,
	"refused" integer DEFAULT 0 NOT NULL,
	"started_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"ended_at" timestamp (3) with time zone,
	"actor" text NOT NULL,
	"request_hash" text NOT NULL
) WITH (fillfactor = 70);
--> statement-breakpoint
CREATE INDEX "bulk_jobs_by_time" ON "bulk_jobs" USING btree ("started_at","id");
--> statement-breakpoint
CREATE INDEX "bulk_jobs_running" ON "bulk_jobs" USING btree ("shard","started_at") WHERE state = 'running';
--> statement-breakpoint
CREATE INDEX "bulk_jobs_by_end" ON "bulk_jobs" USING btree ("ended_at","id") WHERE ended_at is not null;
--> statement-breakpoint
CREATE TABLE "bulk_targets" (
	"bulk_id" uuid NOT NULL,
	"nth" integer NOT NULL,
	"run_id" uuid NOT NULL,
	"state" text DEFAULT 'open' NOT NULL,
	"message" text,
	CONSTRAINT "bulk_targets_bulk_id_nth_pk" PRIMARY KEY("bulk_id","nth")
);
--> statement-breakpoint
CREATE INDEX "bulk_targets_open" ON "bulk_targets" USING btree ("bulk_id","nth") WHERE state = 'open';
--> statement-breakpoint
CREATE INDEX "bulk_targets_refused" ON "bulk_targets" USING btree ("bulk_id","nth") WHERE state = 'refused';
