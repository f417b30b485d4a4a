-- The transaction of an event. Without a default first, so that the table is not rewritten; nodes of the previous release get it, too.
ALTER TABLE "events" ADD COLUMN "xid" xid8;--> statement-breakpoint
ALTER TABLE "events" ALTER COLUMN "xid" SET DEFAULT pg_current_xact_id();
