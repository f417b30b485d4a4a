-- What nodes were deciding on when they died: run ids, and starts by the hash of their request.
CREATE TABLE "suspects" (
	"key" uuid PRIMARY KEY NOT NULL,
	"deaths" smallint NOT NULL,
	"trial_deaths" smallint DEFAULT 0 NOT NULL,
	"until" timestamp (3) with time zone NOT NULL
);
