-- User tasks are written now: what they are called, when they were opened, and when nobody could submit them any more.
ALTER TABLE "user_tasks" ADD COLUMN "title" text;--> statement-breakpoint
ALTER TABLE "user_tasks" ADD COLUMN "opened_at" timestamp (3) with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
ALTER TABLE "user_tasks" ADD COLUMN "closed_at" timestamp (3) with time zone;--> statement-breakpoint
DROP INDEX "user_tasks_by_assignee";--> statement-breakpoint
CREATE INDEX "user_tasks_by_time" ON "user_tasks" USING btree ("opened_at","id");--> statement-breakpoint
CREATE INDEX "user_tasks_by_assignee" ON "user_tasks" USING btree ("assignee","opened_at","id");--> statement-breakpoint
CREATE INDEX "user_tasks_open" ON "user_tasks" USING btree ("assignee","opened_at","id") WHERE closed_at is null;
