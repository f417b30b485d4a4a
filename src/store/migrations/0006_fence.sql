-- The random token beside the revision of a run. Nullable: nodes of the previous release do not write it.
ALTER TABLE "runs" ADD COLUMN "fence" bigint;
