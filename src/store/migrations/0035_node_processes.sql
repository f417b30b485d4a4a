-- Where a node runs: its host and its process. Nullable: nodes of the previous release do not say it.
ALTER TABLE "nodes" ADD COLUMN "host" text;
--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "process_id" integer;
