-- Records of format 3 (paused runs, incidents) cannot be written in an older format: a node that does not read them leaves such a run alone. Only format 2
-- is lowered.
CREATE OR REPLACE FUNCTION "lower_records"() RETURNS trigger LANGUAGE plpgsql AS 'DECLARE
  oldest smallint;
BEGIN
  SELECT least(NEW.record_format, min(record_format)) INTO oldest FROM nodes WHERE heartbeat_at > now() - interval ''5 seconds'';
  UPDATE runs SET record = record_in_format(record, oldest), record_format = nullif(oldest, 1) WHERE id IN (
    SELECT id FROM runs WHERE record_format > oldest AND record_format < 3 LIMIT 5000 FOR UPDATE SKIP LOCKED);
  RETURN NEW;
END';
--> statement-breakpoint
CREATE OR REPLACE FUNCTION "keep_record_readable"() RETURNS trigger LANGUAGE plpgsql AS 'DECLARE
  oldest smallint;
BEGIN
  IF NEW.record_format >= 3 THEN
    RETURN NEW;
  END IF;
  SELECT min(record_format) INTO oldest FROM nodes WHERE heartbeat_at > now() - interval ''5 seconds'';
  IF oldest < NEW.record_format THEN
    NEW.record := record_in_format(NEW.record, oldest);
    NEW.record_format := nullif(oldest, 1);
  END IF;
  RETURN NEW;
END';
