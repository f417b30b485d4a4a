-- The error code that a run ended with; empty: none. Set once, in the update that ends the run, for the filters of the list. By the database, so
-- that nodes of the previous release set it, too. Cut, because an index has no room for a text of any length.
ALTER TABLE "runs" ADD COLUMN "ended_with" text;
--> statement-breakpoint
-- Why a run is held, where that is an exception: an incident, an operator, a concurrency limit. `paused_reason` changes with every wait, so an
-- index on it would make those updates leave their page; this changes with exceptions only.
ALTER TABLE "runs" ADD COLUMN "held_as" text;
--> statement-breakpoint
CREATE FUNCTION "run_error_code"("state" text, "record" json) RETURNS text LANGUAGE sql IMMUTABLE AS
  'SELECT CASE WHEN state = ''succeeded'' THEN '''' ELSE coalesce(left(record->''ending''->''error''->>''code'', 256), '''') END';
--> statement-breakpoint
CREATE FUNCTION "note_run_held"() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
  NEW.held_as := CASE WHEN NEW.terminal_at IS NULL AND NEW.paused_reason IN (''incident'', ''operator'', ''concurrency'') THEN NEW.paused_reason END;
  RETURN NEW;
END';
--> statement-breakpoint
CREATE TRIGGER "runs_held" BEFORE UPDATE ON "runs" FOR EACH ROW
  WHEN (OLD."held_as" IS NOT NULL OR NEW."paused_reason" IN ('incident', 'operator', 'concurrency')) EXECUTE FUNCTION "note_run_held"();
--> statement-breakpoint
CREATE TRIGGER "runs_held_at_once" BEFORE INSERT ON "runs" FOR EACH ROW
  WHEN (NEW."paused_reason" IN ('incident', 'operator', 'concurrency')) EXECUTE FUNCTION "note_run_held"();
--> statement-breakpoint
-- How many runs the store holds that ended before the second row of `end_horizon`: counted by a node (kept-counts.ts). The tenant is all
-- zeros where there is none.
CREATE TABLE "run_counts" (
	"workflow_id" text NOT NULL,
	"version" integer NOT NULL,
	"tenant_id" uuid NOT NULL,
	"root" boolean NOT NULL,
	"ended_as" text NOT NULL,
	"count" bigint NOT NULL,
	CONSTRAINT "run_counts_pk" PRIMARY KEY("workflow_id","version","tenant_id","root","ended_as")
);
--> statement-breakpoint
INSERT INTO "end_horizon" ("id", "until") VALUES (2, '-infinity') ON CONFLICT DO NOTHING;
--> statement-breakpoint
-- What is to be added to these counts: runs that became visible late, with the time of their end, and runs that retention deleted. Rows are
-- only added, so that no commit waits for another one; a node adds them up.
CREATE TABLE "run_count_changes" (
	"workflow_id" text NOT NULL,
	"version" integer NOT NULL,
	"tenant_id" uuid NOT NULL,
	"root" boolean NOT NULL,
	"ended_as" text NOT NULL,
	"change" integer NOT NULL,
	"ended_at" timestamp (3) with time zone
);
--> statement-breakpoint
-- The ten seconds are those of end-counts.ts. What ended more than a day ago is in no rate of a day, but it is in the counts. The clock of
-- another server may be behind: then the horizon is ahead of an end that is not late.
CREATE OR REPLACE FUNCTION "note_run_end"() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
  NEW.ended_as := NEW.state;
  NEW.ended_in := NEW.current_step;
  NEW.ended_with := run_error_code(NEW.state, NEW.record);
  IF NEW.terminal_at < now() - interval ''10 seconds'' AND NEW.terminal_at > now() - interval ''25 hours'' THEN
    INSERT INTO late_run_ends (workflow_id, minute) VALUES (NEW.workflow_id, date_trunc(''minute'', NEW.terminal_at));
  END IF;
  IF NEW.terminal_at < now() - interval ''10 seconds'' OR NEW.terminal_at < (SELECT until FROM end_horizon WHERE id = 2) THEN
    INSERT INTO run_count_changes (workflow_id, version, tenant_id, root, ended_as, change, ended_at) VALUES (NEW.workflow_id, NEW.version,
      coalesce(NEW.tenant_id, ''00000000-0000-0000-0000-000000000000''), NEW.parent_run_id IS NULL, NEW.state, 1, NEW.terminal_at);
  END IF;
  RETURN NEW;
END';
--> statement-breakpoint
-- A terminal run never changes (law 4), but one that ended before these columns gets them once, whatever else the update says.
CREATE OR REPLACE FUNCTION "keep_terminal_run"() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
  IF (OLD.ended_as IS NULL AND NEW.ended_as IS NOT NULL) OR (OLD.ended_with IS NULL AND NEW.ended_with IS NOT NULL) THEN
    OLD.ended_as := OLD.state;
    OLD.ended_in := OLD.current_step;
    OLD.ended_with := run_error_code(OLD.state, OLD.record);
    RETURN OLD;
  END IF;
  RETURN NULL;
END';
--> statement-breakpoint
-- By the database, because pruners of the previous release delete runs, too. The lock: whoever counts is done, or has not begun.
CREATE FUNCTION "note_runs_gone"() RETURNS trigger LANGUAGE plpgsql AS 'DECLARE
  counted timestamptz;
BEGIN
  SELECT until INTO counted FROM end_horizon WHERE id = 2 FOR SHARE;
  INSERT INTO run_count_changes (workflow_id, version, tenant_id, root, ended_as, change)
  SELECT workflow_id, version, coalesce(tenant_id, ''00000000-0000-0000-0000-000000000000''), parent_run_id IS NULL, state, -count(*)
  FROM gone WHERE terminal_at < counted GROUP BY 1, 2, 3, 4, 5;
  RETURN NULL;
END';
--> statement-breakpoint
CREATE TRIGGER "runs_gone" AFTER DELETE ON "runs" REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION "note_runs_gone"();
