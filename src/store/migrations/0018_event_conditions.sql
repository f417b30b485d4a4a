-- What an event must equal for a waiting run to match it: {"entry": of the step, "equal": {path: value}}, each path a JSON array of names.
ALTER TABLE "event_waits" ADD COLUMN "conditions" jsonb;--> statement-breakpoint
-- A node of an older release leaves the conditions of one wait in the row of the next; a newer node always changes them, by the entry.
CREATE FUNCTION "forget_event_conditions"() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
  NEW.conditions := NULL;
  RETURN NEW;
END';
--> statement-breakpoint
CREATE TRIGGER "event_waits_forget_conditions" BEFORE UPDATE ON "event_waits" FOR EACH ROW
  WHEN (OLD."conditions" IS NOT NULL AND NEW."conditions" IS NOT DISTINCT FROM OLD."conditions")
  EXECUTE FUNCTION "forget_event_conditions"();
