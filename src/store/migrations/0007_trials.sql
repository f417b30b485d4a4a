-- How often a run has ended or hung its trial process, alone. Three times are the proof for its quarantine.
ALTER TABLE "wakes" ADD COLUMN "trial_deaths" smallint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "inbox" ADD COLUMN "trial_deaths" smallint DEFAULT 0 NOT NULL;
