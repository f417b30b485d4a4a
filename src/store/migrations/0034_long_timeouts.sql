-- The time of an attempt of an action, where "default_timeout_ms" cannot hold it: it then has the most that it can, which is also what
-- nodes of an earlier release go by.
ALTER TABLE "actions" ADD COLUMN "long_timeout_ms" bigint;
