-- How many runs of a workflow succeeded and failed in a minute: counted by a node once the minute is over (end-counts.ts).
CREATE TABLE "run_end_counts" (
	"workflow_id" text NOT NULL,
	"minute" timestamp (3) with time zone NOT NULL,
	"succeeded" integer NOT NULL,
	"failed" integer NOT NULL,
	CONSTRAINT "run_end_counts_workflow_id_minute_pk" PRIMARY KEY("workflow_id","minute")
);
--> statement-breakpoint
-- One row: minutes before it are counted.
CREATE TABLE "end_horizon" (
	"id" smallint PRIMARY KEY NOT NULL,
	"until" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
-- Minutes in which a run ended that became visible long afterwards, by a frozen process: to be counted again. Rows are only added, so that a
-- row that is committed during the count stays.
CREATE TABLE "late_run_ends" (
	"workflow_id" text NOT NULL,
	"minute" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE INDEX "late_run_ends_by_minute" ON "late_run_ends" USING btree ("workflow_id","minute");
--> statement-breakpoint
-- The ten seconds are those of end-counts.ts. What ended more than a day ago is in no statistic.
CREATE OR REPLACE FUNCTION "note_run_end"() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
  NEW.ended_as := NEW.state;
  NEW.ended_in := NEW.current_step;
  IF NEW.terminal_at < now() - interval ''10 seconds'' AND NEW.terminal_at > now() - interval ''25 hours'' THEN
    INSERT INTO late_run_ends (workflow_id, minute) VALUES (NEW.workflow_id, date_trunc(''minute'', NEW.terminal_at));
  END IF;
  RETURN NEW;
END';
