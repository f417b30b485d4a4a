-- The branch or item that a signal is promised to. Nullable: nodes of the previous release promise nothing.
ALTER TABLE "signals" ADD COLUMN "promised_to" uuid;
