-- The ticket of a run that an operator has paused, or that is in quarantine, keeps its place and is passed over: its slot would stand idle while those
-- behind it wait. A run that is refused rather than queued has no place to keep, so its ticket is granted all the same.
CREATE FUNCTION "is_passed_over"("p_run" uuid, "p_on_limit" text) RETURNS boolean LANGUAGE sql STABLE AS
  'SELECT p_on_limit <> ''refuse'' AND EXISTS (SELECT 1 FROM runs WHERE id = p_run AND paused_reason IN (''operator'', ''quarantine''))';
--> statement-breakpoint
-- As in 0032, but for the tickets that are passed over. Each is looked at once: the next one is searched behind the one before.
CREATE OR REPLACE FUNCTION "grant_slots"("p_scope" text, "p_key" text, "p_tenant" uuid, "p_room" integer)
RETURNS TABLE ("to_run" uuid, "inbox_id" uuid, "sent" json) LANGUAGE plpgsql AS $$DECLARE
  held integer;
  told integer := 0;
  last bigint := 0;
  one record;
BEGIN
  PERFORM lock_slot_key(p_scope, p_key, p_tenant);
  SELECT on_limit, slot_limit INTO one FROM concurrency_tickets
  WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant ORDER BY ticket DESC LIMIT 1;
  IF one.on_limit = 'cancel_oldest' THEN
    FOR one IN
      UPDATE concurrency_tickets t SET cancelled_at = clock_timestamp() FROM (
        SELECT run_id, entry FROM concurrency_tickets
        WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant AND cancelled_at IS NULL
        ORDER BY ticket DESC OFFSET one.slot_limit LIMIT 200 FOR UPDATE SKIP LOCKED
      ) old WHERE t.run_id = old.run_id AND t.entry = old.entry RETURNING t.run_id, t.shard
    LOOP
      to_run := one.run_id;
      sent := json_build_object('type', 'cancel', 'reason', 'a newer run of its concurrency key has taken its place', 'compensate', true, 'actor', 'coordinator');
      inbox_id := tell_run(to_run, one.shard, sent);
      RETURN NEXT;
      told := told + 1;
    END LOOP;
    -- An older one that is still to be cancelled gets no slot.
    IF told = 200 THEN
      RETURN;
    END IF;
    told := 0;
  END IF;
  SELECT count(*) INTO held FROM concurrency_tickets
  WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant AND granted_at IS NOT NULL;
  SELECT held + count(*) INTO held FROM concurrency_tickets
  WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant AND reserved_until IS NOT NULL;
  LOOP
    SELECT run_id, entry, shard, slot_limit, ticket INTO one FROM concurrency_tickets
    WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant AND granted_at IS NULL AND reserved_until IS NULL AND cancelled_at IS NULL
      AND ticket > last AND NOT is_passed_over(run_id, on_limit)
    ORDER BY ticket LIMIT 1 FOR UPDATE SKIP LOCKED;
    EXIT WHEN NOT FOUND OR held >= one.slot_limit OR told = 200;
    last := one.ticket;
    UPDATE concurrency_tickets t SET granted_at = clock_timestamp() WHERE t.run_id = one.run_id AND t.entry = one.entry;
    held := held + 1;
    told := told + 1;
    to_run := one.run_id;
    sent := json_build_object('type', 'slot_granted', 'entry', one.entry);
    inbox_id := tell_run(to_run, one.shard, sent);
    RETURN NEXT;
  END LOOP;
  IF told = 200 THEN
    RETURN;
  END IF;
  FOR one IN
    DELETE FROM concurrency_tickets t USING (
      SELECT run_id, entry FROM concurrency_tickets
      WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant AND granted_at IS NULL AND reserved_until IS NULL AND on_limit = 'refuse'
      LIMIT 200 FOR UPDATE SKIP LOCKED
    ) late WHERE t.run_id = late.run_id AND t.entry = late.entry RETURNING t.run_id, t.entry, t.shard
  LOOP
    to_run := one.run_id;
    sent := json_build_object('type', 'slot_refused', 'entry', one.entry, 'reason', 'refused');
    inbox_id := tell_run(to_run, one.shard, sent);
    RETURN NEXT;
  END LOOP;
  IF p_room IS NULL THEN
    RETURN;
  END IF;
  FOR one IN
    DELETE FROM concurrency_tickets t USING (
      SELECT run_id, entry FROM concurrency_tickets WHERE (run_id, entry) IN (
        SELECT w.run_id, w.entry FROM (
          SELECT run_id, entry, admitted FROM concurrency_tickets
          WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant AND granted_at IS NULL
          ORDER BY ticket OFFSET p_room
        ) w WHERE NOT w.admitted LIMIT 200
      ) FOR UPDATE SKIP LOCKED
    ) late WHERE t.run_id = late.run_id AND t.entry = late.entry RETURNING t.run_id, t.entry, t.shard
  LOOP
    to_run := one.run_id;
    sent := json_build_object('type', 'slot_refused', 'entry', one.entry, 'reason', 'full');
    inbox_id := tell_run(to_run, one.shard, sent);
    RETURN NEXT;
  END LOOP;
END$$;
