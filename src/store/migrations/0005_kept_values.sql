-- The scopes of forks, with their large values shared by content. `run_scopes` becomes a view with the columns that it had, so a node of the
-- previous release reads every scope whole, and its own inserts and deletions arrive here (law 13).
ALTER TABLE "run_scopes" RENAME TO "kept_scopes";--> statement-breakpoint
ALTER TABLE "kept_scopes" ALTER COLUMN "inputs" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "kept_scopes" ALTER COLUMN "variables" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "kept_scopes" ADD COLUMN "holder" uuid;--> statement-breakpoint
ALTER TABLE "kept_scopes" ADD COLUMN "manifest" json;--> statement-breakpoint
ALTER TABLE "kept_scopes" ADD COLUMN "manifest_hash" uuid;--> statement-breakpoint
CREATE TABLE "kept_values" (
	"holder" uuid NOT NULL,
	"hash" uuid NOT NULL,
	"value" json NOT NULL,
	CONSTRAINT "kept_values_holder_hash_pk" PRIMARY KEY("holder","hash")
);
--> statement-breakpoint
-- The variables that a manifest names: {"own": {name: value}, "shared": {name: hash}}.
CREATE FUNCTION "kept_variables"("of_holder" uuid, "manifest" json) RETURNS json LANGUAGE sql STABLE AS '
  select coalesce(json_object_agg(named.name, named.value), ''{}''::json) from (
    select own.key as name, own.value from json_each(manifest->''own'') own
    union all
    select shared.key, kept.value from json_each_text(manifest->''shared'') shared
      left join kept_values kept on kept.holder = of_holder and kept.hash = shared.value::uuid
  ) named';
--> statement-breakpoint
CREATE VIEW "run_scopes" AS
  SELECT s.run_id, s.entry,
    coalesce(s.inputs, (SELECT t.inputs FROM run_starts t WHERE t.run_id = s.holder)) AS inputs,
    coalesce(s.variables, kept_variables(s.holder, coalesce(s.manifest,
      (SELECT k.value FROM kept_values k WHERE k.holder = s.holder AND k.hash = s.manifest_hash)))) AS variables
  FROM kept_scopes s;
--> statement-breakpoint
CREATE FUNCTION "insert_run_scope"() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
  INSERT INTO kept_scopes (run_id, entry, inputs, variables) VALUES (NEW.run_id, NEW.entry, NEW.inputs, NEW.variables);
  RETURN NEW;
END';
--> statement-breakpoint
CREATE FUNCTION "delete_run_scope"() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
  DELETE FROM kept_scopes WHERE run_id = OLD.run_id AND entry = OLD.entry;
  RETURN OLD;
END';
--> statement-breakpoint
CREATE TRIGGER "run_scopes_insert" INSTEAD OF INSERT ON "run_scopes" FOR EACH ROW EXECUTE FUNCTION "insert_run_scope"();--> statement-breakpoint
CREATE TRIGGER "run_scopes_delete" INSTEAD OF DELETE ON "run_scopes" FOR EACH ROW EXECUTE FUNCTION "delete_run_scope"();
