-- Labels of runs, for the filters of the list. A run's own copy is in its identity.
CREATE TABLE "run_labels" (
	"run_id" uuid NOT NULL,
	"name" text NOT NULL,
	"value" text NOT NULL,
	CONSTRAINT "run_labels_run_id_name_pk" PRIMARY KEY("run_id","name")
);
--> statement-breakpoint
CREATE INDEX "run_labels_by_value" ON "run_labels" USING btree ("name","value","run_id");
