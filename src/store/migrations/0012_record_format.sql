-- The format of a record that is newer than format 1; null: format 1. Nodes of release 0.6, which read format 1 only, never write it.
ALTER TABLE "runs" ADD COLUMN "record_format" smallint;--> statement-breakpoint
-- What encodeRecord (machines/state/record.ts) makes of a record for nodes that read no newer format. Members keep their order, because a replay must see
-- what the first run saw.
CREATE FUNCTION "record_in_format"("record" json, "format" smallint) RETURNS json LANGUAGE sql IMMUTABLE AS '
  select case when (record->>''v'')::smallint <= format then record else (
    select json_object_agg(member.key, case member.key
      when ''v'' then to_json(format)
      when ''wait'' then (select json_object_agg(key, value) from json_each(member.value) where key <> ''snapshot'')
      else member.value end)
    from json_each(record) member) end';
--> statement-breakpoint
-- A node that joins must find no record that it cannot read (law 13), and a node of an earlier release cannot ask for that itself. So the database lowers
-- records with the heartbeat that makes it visible. Bounded: after very many of them, the heartbeats that follow continue.
CREATE FUNCTION "lower_records"() RETURNS trigger LANGUAGE plpgsql AS 'DECLARE
  oldest smallint;
BEGIN
  SELECT least(NEW.record_format, min(record_format)) INTO oldest FROM nodes WHERE heartbeat_at > now() - interval ''5 seconds'';
  UPDATE runs SET record = record_in_format(record, oldest), record_format = nullif(oldest, 1) WHERE id IN (
    SELECT id FROM runs WHERE record_format > oldest LIMIT 5000 FOR UPDATE SKIP LOCKED);
  RETURN NEW;
END';
--> statement-breakpoint
CREATE TRIGGER "nodes_lower_records" BEFORE INSERT ON "nodes" FOR EACH ROW EXECUTE FUNCTION "lower_records"();--> statement-breakpoint
-- Until its next heartbeat a newer node does not know of a node that has joined, and writes the newer format.
CREATE FUNCTION "keep_record_readable"() RETURNS trigger LANGUAGE plpgsql AS 'DECLARE
  oldest smallint;
BEGIN
  SELECT min(record_format) INTO oldest FROM nodes WHERE heartbeat_at > now() - interval ''5 seconds'';
  IF oldest < NEW.record_format THEN
    NEW.record := record_in_format(NEW.record, oldest);
    NEW.record_format := nullif(oldest, 1);
  END IF;
  RETURN NEW;
END';
--> statement-breakpoint
CREATE TRIGGER "runs_readable_record" BEFORE UPDATE ON "runs" FOR EACH ROW WHEN (NEW.record_format IS NOT NULL) EXECUTE FUNCTION "keep_record_readable"();
