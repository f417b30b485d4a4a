-- Output schemas that a registration has replaced: calls that were made with them are checked by them.
CREATE TABLE "replaced_schemas" (
	"hash" uuid PRIMARY KEY NOT NULL,
	"schema" json NOT NULL
);
