-- Concurrency: a ticket for each run, and for each step entry, that holds a slot of a key or waits for one. It is written by the commit that asks for
-- the slot, and deleted by the commit that no longer needs it, so a crash leaves none behind. The key belongs to a tenant; all zeros: to none, or to
-- all of them. `entry` is 0 for the slot of the whole run. `reserved_until`: reserved for a start that has not been committed. `admitted`: the
-- waiting list had room for it when its start was accepted. `cancelled_at`: a newer run has its place, and the cancel has been sent.
CREATE TABLE "concurrency_tickets" (
	"run_id" uuid NOT NULL,
	"entry" integer NOT NULL,
	"shard" smallint NOT NULL,
	"tenant_id" uuid NOT NULL,
	"scope" text NOT NULL,
	"key" text NOT NULL,
	"step_id" text,
	"ticket" bigserial NOT NULL,
	"slot_limit" integer NOT NULL,
	"on_limit" text NOT NULL,
	"admitted" boolean NOT NULL,
	"requested_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"granted_at" timestamp (3) with time zone,
	"reserved_until" timestamp (3) with time zone,
	"cancelled_at" timestamp (3) with time zone,
	CONSTRAINT "concurrency_tickets_run_id_entry_pk" PRIMARY KEY("run_id","entry")
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
--> statement-breakpoint
CREATE INDEX "concurrency_tickets_by_key" ON "concurrency_tickets" USING btree ("scope","key","tenant_id","ticket");
--> statement-breakpoint
CREATE INDEX "concurrency_tickets_waiting" ON "concurrency_tickets" USING btree ("scope","key","tenant_id","ticket") WHERE granted_at is null;
--> statement-breakpoint
CREATE INDEX "concurrency_tickets_held" ON "concurrency_tickets" USING btree ("scope","key","tenant_id","ticket") WHERE granted_at is not null;
--> statement-breakpoint
CREATE INDEX "concurrency_tickets_reserved" ON "concurrency_tickets" USING btree ("scope","key","tenant_id") WHERE reserved_until is not null;
--> statement-breakpoint
CREATE INDEX "concurrency_tickets_refusable" ON "concurrency_tickets" USING btree ("scope","key","tenant_id") WHERE granted_at is null and on_limit = 'refuse';
--> statement-breakpoint
-- One transaction at a time counts the tickets of a key and acts on the count. "slot" in ASCII; must never change: releases that run side by side
-- have to agree on it. Statements after it see what was committed before the lock was acquired. A reservation whose start was not committed in time is void.
CREATE FUNCTION "lock_slot_key"("p_scope" text, "p_key" text, "p_tenant" uuid) RETURNS void LANGUAGE plpgsql AS $$BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(p_tenant::text || '/' || p_scope || '/' || p_key, 1936486260));
  DELETE FROM concurrency_tickets t USING (
    SELECT run_id, entry FROM concurrency_tickets
    WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant AND reserved_until IS NOT NULL AND reserved_until < clock_timestamp()
    FOR UPDATE SKIP LOCKED
  ) void WHERE t.run_id = void.run_id AND t.entry = void.entry;
END$$;
--> statement-breakpoint
-- Reserves a slot for a start that is refused if there is none. False: all are taken, by others than this run. Where that is plain to see, it takes no
-- lock: many starts for a key that is taken wait for nothing.
CREATE FUNCTION "reserve_slot"("p_scope" text, "p_key" text, "p_tenant" uuid, "p_limit" integer, "p_run" uuid, "p_shard" smallint, "p_seconds" integer)
RETURNS boolean LANGUAGE plpgsql AS $$BEGIN
  IF p_limit <= (SELECT count(*) FROM (SELECT 1 FROM concurrency_tickets WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant
    AND run_id <> p_run AND (reserved_until IS NULL OR reserved_until > clock_timestamp()) ORDER BY ticket LIMIT p_limit) taken) THEN
    RETURN false;
  END IF;
  PERFORM lock_slot_key(p_scope, p_key, p_tenant);
  IF p_limit <= (SELECT count(*) FROM (SELECT 1 FROM concurrency_tickets
    WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant AND run_id <> p_run ORDER BY ticket LIMIT p_limit) taken) THEN
    RETURN false;
  END IF;
  INSERT INTO concurrency_tickets (run_id, entry, shard, tenant_id, scope, key, slot_limit, on_limit, admitted, reserved_until)
  VALUES (p_run, 0, p_shard, p_tenant, p_scope, p_key, p_limit, 'refuse', true, clock_timestamp() + make_interval(secs => p_seconds))
  ON CONFLICT DO NOTHING;
  RETURN true;
END$$;
--> statement-breakpoint
CREATE FUNCTION "tell_run"("p_run" uuid, "p_shard" smallint, "p_command" json) RETURNS uuid LANGUAGE sql AS
  'INSERT INTO inbox (id, run_id, shard, command, due_at) VALUES (gen_random_uuid(), p_run, p_shard, p_command, clock_timestamp() + interval ''1 second'') RETURNING id';
--> statement-breakpoint
-- Gives the free slots of a key to those that have waited longest, and tells them so in the same transaction. A ticket that a commit has locked is about
-- to go: it is passed over, so nothing here waits for a commit. At most 200 of each kind at once; the caller asks again then. `p_room`: how many may wait, where that is to be checked; those that a client's
-- start was accepted for stay in any case.
CREATE FUNCTION "grant_slots"("p_scope" text, "p_key" text, "p_tenant" uuid, "p_room" integer)
RETURNS TABLE ("to_run" uuid, "inbox_id" uuid, "sent" json) LANGUAGE plpgsql AS $$DECLARE
  held integer;
  told integer := 0;
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
    SELECT run_id, entry, shard, slot_limit INTO one FROM concurrency_tickets
    WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant AND granted_at IS NULL AND reserved_until IS NULL AND cancelled_at IS NULL
    ORDER BY ticket LIMIT 1 FOR UPDATE SKIP LOCKED;
    EXIT WHEN NOT FOUND OR held >= one.slot_limit OR told = 200;
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
