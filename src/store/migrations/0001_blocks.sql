ALTER TABLE "runs" ADD COLUMN "frames" json;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "items" json;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "parent_entry" integer;--> statement-breakpoint
ALTER TABLE "runs" ADD COLUMN "family_run_id" uuid;--> statement-breakpoint
DROP INDEX "runs_by_parent";--> statement-breakpoint
CREATE INDEX "runs_by_parent" ON "runs" USING btree ("parent_run_id","parent_entry") WHERE parent_run_id is not null;--> statement-breakpoint
CREATE INDEX "runs_by_family" ON "runs" USING btree ("family_run_id") WHERE family_run_id is not null;--> statement-breakpoint
ALTER TABLE "run_starts" ALTER COLUMN "inputs" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "run_variables" ALTER COLUMN "value" DROP NOT NULL;--> statement-breakpoint
CREATE TABLE "run_scopes" (
	"run_id" uuid NOT NULL,
	"entry" integer NOT NULL,
	"inputs" json NOT NULL,
	"variables" json NOT NULL,
	CONSTRAINT "run_scopes_run_id_entry_pk" PRIMARY KEY("run_id","entry")
);
