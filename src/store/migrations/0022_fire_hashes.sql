-- What a fire by hand asked for: a repeat of its idempotency key must ask for the same.
ALTER TABLE "trigger_fires" ADD COLUMN "request_hash" text;
