-- How a run ended, and at which step. `state` and `current_step` change while a run works, so an index on them would make those updates leave
-- their page; these are set once, in the update that ends the run. By the database, so that nodes of the previous release set them, too.
ALTER TABLE "runs" ADD COLUMN "ended_as" text;
--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "ended_in" text;
--> statement-breakpoint
CREATE FUNCTION "note_run_end"() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
  NEW.ended_as := NEW.state;
  NEW.ended_in := NEW.current_step;
  RETURN NEW;
END';
--> statement-breakpoint
CREATE TRIGGER "runs_end" BEFORE UPDATE ON "runs" FOR EACH ROW WHEN (OLD."terminal_at" IS NULL AND NEW."terminal_at" IS NOT NULL) EXECUTE FUNCTION "note_run_end"();
--> statement-breakpoint
CREATE TRIGGER "runs_ended_at_once" BEFORE INSERT ON "runs" FOR EACH ROW WHEN (NEW."terminal_at" IS NOT NULL) EXECUTE FUNCTION "note_run_end"();
--> statement-breakpoint
-- A terminal run never changes (law 4), but one that ended before these columns gets them once, whatever else the update says.
CREATE OR REPLACE FUNCTION "keep_terminal_run"() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
  IF OLD.ended_as IS NULL AND NEW.ended_as IS NOT NULL THEN
    OLD.ended_as := OLD.state;
    OLD.ended_in := OLD.current_step;
    RETURN OLD;
  END IF;
  RETURN NULL;
END';
