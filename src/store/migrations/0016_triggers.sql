-- Triggers fire. No earlier release wrote these tables. A fire is a row that owes a run until the run is durable; its id follows from
-- the trigger and from what fired it, so that two events of one millisecond are two fires.
ALTER TABLE "triggers" ADD COLUMN "request_hash" text;
--> statement-breakpoint
ALTER TABLE "triggers" ADD COLUMN "failing" boolean DEFAULT false NOT NULL;
--> statement-breakpoint
ALTER TABLE "trigger_fires" DROP CONSTRAINT "trigger_fires_once";
--> statement-breakpoint
ALTER TABLE "trigger_fires" ADD COLUMN "inputs" json;
--> statement-breakpoint
ALTER TABLE "trigger_fires" ADD COLUMN "due_at" timestamp (3) with time zone;
