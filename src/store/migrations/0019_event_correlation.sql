-- Waits of a topic by what they compare (the names of headers, the paths of conditions), and by the values that it must have.
CREATE INDEX CONCURRENTLY "event_waits_by_correlation" ON "event_waits" USING btree (
  "topic",
  (md5(jsonb_path_query_array("headers", '$.keyvalue().key')::text || coalesce(jsonb_path_query_array("conditions", '$.equal.keyvalue().key')::text, ''))::uuid),
  (md5("headers"::text || coalesce(("conditions" -> 'equal')::text, ''))::uuid),
  "run_id"
);
