-- Events, who waits for them, and who took which.
CREATE TABLE "events" (
	"id" uuid PRIMARY KEY NOT NULL,
	"ordinal" bigserial NOT NULL,
	"tenant_id" uuid,
	"topic" text NOT NULL,
	"headers" jsonb NOT NULL,
	"payload" json NOT NULL,
	"size" integer NOT NULL,
	"idempotency_key" text,
	"request_hash" text,
	"published_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"due_at" timestamp (3) with time zone,
	"told_to" uuid,
	CONSTRAINT "events_idempotency_key_unique" UNIQUE("idempotency_key")
);
--> statement-breakpoint
CREATE INDEX "events_by_topic" ON "events" USING btree ("topic","ordinal");--> statement-breakpoint
CREATE INDEX "events_by_time" ON "events" USING btree ("published_at","ordinal");--> statement-breakpoint
CREATE INDEX "events_due" ON "events" USING btree ("due_at") WHERE due_at is not null;--> statement-breakpoint
CREATE TABLE "event_takes" (
	"run_id" uuid NOT NULL,
	"event_id" uuid NOT NULL,
	CONSTRAINT "event_takes_run_id_event_id_pk" PRIMARY KEY("run_id","event_id")
);
--> statement-breakpoint
CREATE INDEX "event_takes_by_event" ON "event_takes" USING btree ("event_id");--> statement-breakpoint
CREATE TABLE "event_waits" (
	"run_id" uuid PRIMARY KEY NOT NULL,
	"topic" text NOT NULL,
	"headers" jsonb NOT NULL
);
--> statement-breakpoint
CREATE INDEX "event_waits_by_topic" ON "event_waits" USING btree ("topic","run_id");
