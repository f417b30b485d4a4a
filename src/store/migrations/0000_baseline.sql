CREATE TABLE "actions" (
	"id" uuid PRIMARY KEY NOT NULL,
	"service" text NOT NULL,
	"action_name" text NOT NULL,
	"version" integer NOT NULL,
	"description" text,
	"category" text,
	"compensable" boolean NOT NULL,
	"input_schema" json NOT NULL,
	"output_schema" json NOT NULL,
	"error_codes" json,
	"default_retry" json,
	"default_timeout_ms" bigint,
	"deprecated" boolean NOT NULL,
	"registered_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"service_version" text,
	"dry_run_supported" boolean NOT NULL,
	"license_group" text,
	"transport" text NOT NULL,
	"address" text,
	"tenant_id" uuid,
	CONSTRAINT "actions_identity" UNIQUE("service","action_name","version")
);
--> statement-breakpoint
CREATE TABLE "api_keys" (
	"id" text PRIMARY KEY NOT NULL,
	"secret_hash" text NOT NULL,
	"name" text NOT NULL,
	"tenant_id" uuid,
	"roles" json NOT NULL,
	"tenants" json,
	"workflows" json,
	"services" json,
	"secrets" json,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"created_by" text NOT NULL,
	"expires_at" timestamp (3) with time zone,
	"revoked_at" timestamp (3) with time zone,
	"last_used_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "bulk_jobs" (
	"id" uuid PRIMARY KEY NOT NULL,
	"shard" smallint NOT NULL,
	"action" text NOT NULL,
	"filter" json NOT NULL,
	"params" json NOT NULL,
	"state" text NOT NULL,
	"matched" integer NOT NULL,
	"done" integer DEFAULT 0 NOT NULL,
	"refused" integer DEFAULT 0 NOT NULL,
	"started_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"ended_at" timestamp (3) with time zone,
	"actor" text NOT NULL,
	"tenant_id" uuid,
	"reach" json NOT NULL,
	"revoked" boolean DEFAULT false NOT NULL,
	"request_hash" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "bulk_targets" (
	"bulk_id" uuid NOT NULL,
	"nth" integer NOT NULL,
	"run_id" uuid NOT NULL,
	"state" text DEFAULT 'open' NOT NULL,
	"message" text,
	CONSTRAINT "bulk_targets_bulk_id_nth_pk" PRIMARY KEY("bulk_id","nth")
);
--> statement-breakpoint
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
	"priority" smallint,
	"fairness_key" text,
	"fairness_weight" double precision,
	"turn" double precision,
	"level_turn" smallint,
	CONSTRAINT "concurrency_tickets_run_id_entry_pk" PRIMARY KEY("run_id","entry")
);
--> statement-breakpoint
CREATE TABLE "data_keys" (
	"number" serial PRIMARY KEY NOT NULL,
	"tenant_id" uuid NOT NULL,
	"master_key" text NOT NULL,
	"wrapped" text,
	"uses" bigint NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"changed_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"destroyed_at" timestamp (3) with time zone,
	"settled_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "definitions" (
	"definition_id" uuid PRIMARY KEY NOT NULL,
	"workflow_id" text NOT NULL,
	"version" integer NOT NULL,
	"tenant_id" uuid,
	"for_tenant" text,
	"name" text NOT NULL,
	"published" boolean NOT NULL,
	"ever_published" boolean NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"created_by" text,
	"document" json NOT NULL,
	CONSTRAINT "definitions_version" UNIQUE("workflow_id","version")
);
--> statement-breakpoint
CREATE TABLE "end_horizon" (
	"id" smallint PRIMARY KEY NOT NULL,
	"since" timestamp (3) with time zone NOT NULL,
	"until" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "event_takes" (
	"run_id" uuid NOT NULL,
	"event_id" uuid NOT NULL,
	CONSTRAINT "event_takes_run_id_event_id_pk" PRIMARY KEY("run_id","event_id")
);
--> statement-breakpoint
CREATE TABLE "event_waits" (
	"run_id" uuid PRIMARY KEY NOT NULL,
	"topic" text NOT NULL,
	"headers" jsonb NOT NULL,
	"conditions" jsonb
);
--> statement-breakpoint
CREATE TABLE "events" (
	"id" uuid PRIMARY KEY NOT NULL,
	"ordinal" bigserial NOT NULL,
	"tenant_id" uuid,
	"topic" text NOT NULL,
	"headers" jsonb NOT NULL,
	"payload" json NOT NULL,
	"size" integer NOT NULL,
	"idempotency_key" text,
	"request_hash" text,
	"published_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"xid" "xid8" DEFAULT pg_current_xact_id() NOT NULL,
	"due_at" timestamp (3) with time zone,
	"told_to" uuid
);
--> statement-breakpoint
CREATE TABLE "forks" (
	"origin_id" uuid NOT NULL,
	"fork_id" uuid NOT NULL,
	"step" text NOT NULL,
	"entry" integer NOT NULL,
	"inherits" boolean NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "forks_origin_id_fork_id_pk" PRIMARY KEY("origin_id","fork_id")
);
--> statement-breakpoint
CREATE TABLE "held_keys" (
	"scope" text NOT NULL,
	"key" text NOT NULL,
	"run_id" uuid NOT NULL,
	"burst_at" timestamp (3) with time zone,
	CONSTRAINT "held_keys_scope_key_pk" PRIMARY KEY("scope","key")
);
--> statement-breakpoint
CREATE TABLE "inbox" (
	"id" uuid PRIMARY KEY NOT NULL,
	"run_id" uuid NOT NULL,
	"shard" smallint NOT NULL,
	"command" json NOT NULL,
	"due_at" timestamp (3) with time zone NOT NULL,
	"tries" smallint DEFAULT 0 NOT NULL,
	"trial_deaths" smallint DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE TABLE "kept_entries" (
	"run_id" uuid NOT NULL,
	"entry" integer NOT NULL,
	"step_id" text NOT NULL,
	"manifest" json,
	"manifest_hash" uuid,
	CONSTRAINT "kept_entries_run_id_entry_pk" PRIMARY KEY("run_id","entry")
);
--> statement-breakpoint
CREATE TABLE "kept_scopes" (
	"run_id" uuid NOT NULL,
	"entry" integer NOT NULL,
	"holder" uuid NOT NULL,
	"manifest" json,
	"manifest_hash" uuid,
	CONSTRAINT "kept_scopes_run_id_entry_pk" PRIMARY KEY("run_id","entry")
);
--> statement-breakpoint
CREATE TABLE "kept_values" (
	"holder" uuid NOT NULL,
	"hash" uuid NOT NULL,
	"value" json NOT NULL,
	CONSTRAINT "kept_values_holder_hash_pk" PRIMARY KEY("holder","hash")
);
--> statement-breakpoint
CREATE TABLE "nodes" (
	"node_id" uuid PRIMARY KEY NOT NULL,
	"started_at" timestamp (3) with time zone NOT NULL,
	"heartbeat_at" timestamp (3) with time zone NOT NULL,
	"record_format" smallint NOT NULL,
	"host" text NOT NULL,
	"process_id" integer NOT NULL,
	"access" text DEFAULT 'off' NOT NULL
);
--> statement-breakpoint
CREATE TABLE "outbox" (
	"id" uuid PRIMARY KEY NOT NULL,
	"run_id" uuid NOT NULL,
	"shard" smallint NOT NULL,
	"kind" text NOT NULL,
	"payload" json,
	"due_at" timestamp (3) with time zone NOT NULL,
	"tries" smallint DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE TABLE "outgoing_events" (
	"id" uuid PRIMARY KEY NOT NULL,
	"ordinal" bigserial NOT NULL,
	"run_id" uuid NOT NULL,
	"shard" smallint NOT NULL,
	"topic" text,
	"payload" json
);
--> statement-breakpoint
CREATE TABLE "rate_buckets" (
	"tenant_id" uuid NOT NULL,
	"scope" text NOT NULL,
	"key" text NOT NULL,
	"full_us" bigint NOT NULL,
	"step_us" bigint NOT NULL,
	"burst" integer NOT NULL,
	CONSTRAINT "rate_buckets_scope_key_tenant_id_pk" PRIMARY KEY("scope","key","tenant_id")
);
--> statement-breakpoint
CREATE TABLE "rate_tickets" (
	"run_id" uuid NOT NULL,
	"entry" integer NOT NULL,
	"shard" smallint NOT NULL,
	"tenant_id" uuid NOT NULL,
	"scope" text NOT NULL,
	"key" text NOT NULL,
	"step_id" text,
	"ticket" bigserial NOT NULL,
	"rate_limit" integer NOT NULL,
	"per_ms" bigint NOT NULL,
	"burst" integer NOT NULL,
	"admitted" boolean NOT NULL,
	"at_us" bigint,
	"before_us" bigint,
	"after_us" bigint,
	"returned" boolean DEFAULT false NOT NULL,
	CONSTRAINT "rate_tickets_run_id_entry_pk" PRIMARY KEY("run_id","entry")
);
--> statement-breakpoint
CREATE TABLE "replaced_schemas" (
	"hash" uuid PRIMARY KEY NOT NULL,
	"schema" json NOT NULL
);
--> statement-breakpoint
CREATE TABLE "rules" (
	"id" uuid PRIMARY KEY NOT NULL,
	"rule_id" text NOT NULL,
	"version" integer NOT NULL,
	"tenant_id" uuid,
	"for_tenant" text,
	"name" text NOT NULL,
	"published" boolean NOT NULL,
	"ever_published" boolean NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"created_by" text,
	"rule_type" text NOT NULL,
	"spec" json NOT NULL,
	CONSTRAINT "rules_version" UNIQUE("rule_id","version")
);
--> statement-breakpoint
CREATE TABLE "run_commands" (
	"run_id" uuid NOT NULL,
	"command_id" uuid NOT NULL,
	"answer" json NOT NULL,
	"keep" boolean NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "run_commands_run_id_command_id_pk" PRIMARY KEY("run_id","command_id")
);
--> statement-breakpoint
CREATE TABLE "run_end_changes" (
	"workflow_id" text NOT NULL,
	"version" integer NOT NULL,
	"tenant_id" uuid NOT NULL,
	"root" boolean NOT NULL,
	"ended_as" text NOT NULL,
	"change" integer NOT NULL,
	"ended_at" timestamp (3) with time zone,
	"run_id" uuid
);
--> statement-breakpoint
CREATE TABLE "run_end_counts" (
	"workflow_id" text NOT NULL,
	"version" integer NOT NULL,
	"tenant_id" uuid NOT NULL,
	"root" boolean NOT NULL,
	"ended_as" text NOT NULL,
	"dry" boolean NOT NULL,
	"minute" timestamp (3) with time zone NOT NULL,
	"count" bigint NOT NULL,
	CONSTRAINT "run_end_counts_pk" PRIMARY KEY("workflow_id","minute","version","tenant_id","root","ended_as","dry")
);
--> statement-breakpoint
CREATE TABLE "run_events" (
	"run_id" uuid NOT NULL,
	"seq" integer NOT NULL,
	"recorded_at" timestamp (3) with time zone NOT NULL,
	"event_type" text NOT NULL,
	"step_id" text,
	"attempt" integer NOT NULL,
	"from_state" text NOT NULL,
	"to_state" text NOT NULL,
	"actor" text NOT NULL,
	"metadata" json,
	"command_id" uuid,
	CONSTRAINT "run_events_run_id_seq_recorded_at_pk" PRIMARY KEY("run_id","seq","recorded_at")
) PARTITION BY RANGE ("recorded_at");
--> statement-breakpoint
CREATE TABLE "run_labels" (
	"run_id" uuid NOT NULL,
	"name" text NOT NULL,
	"value" text NOT NULL,
	CONSTRAINT "run_labels_run_id_name_pk" PRIMARY KEY("run_id","name")
);
--> statement-breakpoint
CREATE TABLE "run_starts" (
	"run_id" uuid PRIMARY KEY NOT NULL,
	"inputs" json,
	"identity" json NOT NULL,
	"request_hash" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "run_variables" (
	"run_id" uuid NOT NULL,
	"name" text NOT NULL,
	"value" json,
	CONSTRAINT "run_variables_run_id_name_pk" PRIMARY KEY("run_id","name")
);
--> statement-breakpoint
CREATE TABLE "runs" (
	"id" uuid PRIMARY KEY NOT NULL,
	"shard" smallint NOT NULL,
	"revision" integer NOT NULL,
	"fence" bigint NOT NULL,
	"last_seq" integer NOT NULL,
	"state" text NOT NULL,
	"current_step" text,
	"last_event_at" timestamp (3) with time zone NOT NULL,
	"terminal_at" timestamp (3) with time zone,
	"ended_as" text GENERATED ALWAYS AS (case when terminal_at is not null then state end) STORED,
	"ended_in" text GENERATED ALWAYS AS (case when terminal_at is not null then current_step end) STORED,
	"ended_with" text GENERATED ALWAYS AS (case when terminal_at is null then null when state = 'succeeded' then ''
  else coalesce(left(record->'ending'->'error'->>'code', 256), '') end) STORED,
	"held_as" text GENERATED ALWAYS AS (case when terminal_at is null and paused_reason in ('incident', 'operator', 'concurrency') then paused_reason end) STORED,
	"requires_manual_review" boolean NOT NULL,
	"awaited_signal" text,
	"paused_reason" text,
	"record" json NOT NULL,
	"call" json,
	"output" json,
	"frames" json,
	"items" json,
	"workflow_id" text NOT NULL,
	"version" integer NOT NULL,
	"definition_id" uuid NOT NULL,
	"tenant_id" uuid,
	"business_key" text,
	"trigger_id" uuid,
	"parent_run_id" uuid,
	"parent_step_id" text,
	"parent_branch_id" text,
	"parent_entry" integer,
	"root_run_id" uuid,
	"family_run_id" uuid,
	"started_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "service_keys" (
	"purpose" text PRIMARY KEY NOT NULL,
	"secret" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "sessions" (
	"id_hash" text PRIMARY KEY NOT NULL,
	"actor" text NOT NULL,
	"key_id" text,
	"stated" json NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"seen_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "shared_actions" (
	"action_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	CONSTRAINT "shared_actions_action_id_tenant_id_pk" PRIMARY KEY("action_id","tenant_id")
);
--> statement-breakpoint
CREATE TABLE "signals" (
	"id" uuid PRIMARY KEY NOT NULL,
	"ordinal" bigserial NOT NULL,
	"run_id" uuid NOT NULL,
	"signal_name" text NOT NULL,
	"payload" json,
	"received_at" timestamp (3) with time zone NOT NULL,
	"consumed_at" timestamp (3) with time zone,
	"promised_to" uuid
);
--> statement-breakpoint
CREATE TABLE "start_keys" (
	"scope" text NOT NULL,
	"key" text NOT NULL,
	"run_id" uuid NOT NULL,
	CONSTRAINT "start_keys_scope_key_pk" PRIMARY KEY("scope","key")
);
--> statement-breakpoint
CREATE TABLE "suspects" (
	"key" uuid PRIMARY KEY NOT NULL,
	"deaths" smallint NOT NULL,
	"trial_deaths" smallint DEFAULT 0 NOT NULL,
	"until" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "trigger_fires" (
	"id" uuid PRIMARY KEY NOT NULL,
	"trigger_id" uuid NOT NULL,
	"workflow_id" text NOT NULL,
	"scheduled_at" timestamp (3) with time zone NOT NULL,
	"fired_at" timestamp (3) with time zone NOT NULL,
	"resulting_run_id" uuid,
	"error" text,
	"inputs" json,
	"due_at" timestamp (3) with time zone,
	"request_hash" text,
	"backfilled" boolean DEFAULT false NOT NULL,
	"in_turn" boolean DEFAULT false NOT NULL
);
--> statement-breakpoint
CREATE TABLE "triggers" (
	"id" uuid PRIMARY KEY NOT NULL,
	"shard" smallint NOT NULL,
	"trigger_type" text NOT NULL,
	"workflow_id" text NOT NULL,
	"version" integer,
	"config" json NOT NULL,
	"enabled" boolean NOT NULL,
	"tenant_id" uuid,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"created_by" text,
	"next_fire_at" timestamp (3) with time zone,
	"last_fired_at" timestamp (3) with time zone,
	"request_hash" text,
	"failing" boolean DEFAULT false NOT NULL,
	"paused_at" timestamp (3) with time zone,
	"paused_by" text,
	"paused_reason" text
);
--> statement-breakpoint
CREATE TABLE "undo" (
	"ordinal" bigserial PRIMARY KEY NOT NULL,
	"owner_run_id" uuid NOT NULL,
	"step_id" text NOT NULL,
	"entry" integer NOT NULL,
	"action" text,
	"inputs" json,
	"forward_idempotency_key" text NOT NULL,
	"forward_trace" text,
	"child_run_id" uuid,
	"state" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "erased_runs" (
	"run_id" uuid PRIMARY KEY NOT NULL,
	"root_run_id" uuid NOT NULL,
	"tenant_id" uuid,
	"workflow_id" text NOT NULL,
	"key_hash" text,
	"erased_by" text NOT NULL,
	"bulk_id" uuid,
	"erased_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"parent" boolean DEFAULT true NOT NULL,
	"owed" boolean DEFAULT true NOT NULL
);
--> statement-breakpoint
CREATE TABLE "user_tasks" (
	"id" uuid PRIMARY KEY NOT NULL,
	"run_id" uuid NOT NULL,
	"step_id" text NOT NULL,
	"assignee" text NOT NULL,
	"title" text,
	"due_at" timestamp (3) with time zone,
	"form_schema" json,
	"opened_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"closed_at" timestamp (3) with time zone,
	"submitted_at" timestamp (3) with time zone,
	"submitted_by" text,
	"result" json
);
--> statement-breakpoint
CREATE TABLE "wakes" (
	"run_id" uuid PRIMARY KEY NOT NULL,
	"shard" smallint NOT NULL,
	"due_at" timestamp (3) with time zone NOT NULL,
	"tries" smallint DEFAULT 0 NOT NULL,
	"trial_deaths" smallint DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE INDEX "api_keys_by_time" ON "api_keys" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "api_keys_by_tenant" ON "api_keys" USING btree ("tenant_id","created_at","id");--> statement-breakpoint
CREATE INDEX "api_keys_by_end" ON "api_keys" USING btree (least(revoked_at, expires_at));--> statement-breakpoint
CREATE INDEX "bulk_jobs_by_time" ON "bulk_jobs" USING btree ("started_at","id");--> statement-breakpoint
CREATE INDEX "bulk_jobs_running" ON "bulk_jobs" USING btree ("shard","started_at") WHERE state = 'running';--> statement-breakpoint
CREATE INDEX "bulk_jobs_by_end" ON "bulk_jobs" USING btree ("ended_at","id") WHERE ended_at is not null;--> statement-breakpoint
CREATE INDEX "bulk_targets_open" ON "bulk_targets" USING btree ("bulk_id","nth") WHERE state = 'open';--> statement-breakpoint
CREATE INDEX "bulk_targets_refused" ON "bulk_targets" USING btree ("bulk_id","nth") WHERE state = 'refused';--> statement-breakpoint
CREATE INDEX "bulk_targets_told" ON "bulk_targets" USING btree ("run_id") WHERE message is not null;--> statement-breakpoint
CREATE INDEX "concurrency_tickets_by_key" ON "concurrency_tickets" USING btree ("scope","key","tenant_id","ticket");--> statement-breakpoint
CREATE INDEX "concurrency_tickets_waiting" ON "concurrency_tickets" USING btree ("scope","key","tenant_id","ticket") WHERE granted_at is null;--> statement-breakpoint
CREATE INDEX "concurrency_tickets_held" ON "concurrency_tickets" USING btree ("scope","key","tenant_id","ticket") WHERE granted_at is not null;--> statement-breakpoint
CREATE INDEX "concurrency_tickets_in_turn" ON "concurrency_tickets" USING btree ("scope","key","tenant_id","priority","fairness_key","ticket") WHERE granted_at is null and priority is not null;--> statement-breakpoint
CREATE INDEX "concurrency_tickets_reserved" ON "concurrency_tickets" USING btree ("scope","key","tenant_id") WHERE reserved_until is not null;--> statement-breakpoint
CREATE INDEX "concurrency_tickets_refusable" ON "concurrency_tickets" USING btree ("scope","key","tenant_id") WHERE granted_at is null and on_limit = 'refuse';--> statement-breakpoint
CREATE INDEX "data_keys_by_tenant" ON "data_keys" USING btree ("tenant_id","number");--> statement-breakpoint
CREATE INDEX "data_keys_by_change" ON "data_keys" USING btree ("changed_at");--> statement-breakpoint
CREATE INDEX "event_takes_by_event" ON "event_takes" USING btree ("event_id");--> statement-breakpoint
CREATE INDEX "event_waits_by_correlation" ON "event_waits" USING btree ("topic",(md5(jsonb_path_query_array(headers, '$.keyvalue().key')::text
  || coalesce(jsonb_path_query_array(conditions, '$.equal.keyvalue().key')::text, ''))::uuid),(md5(headers::text || coalesce((conditions -> 'equal')::text, ''))::uuid),"run_id");--> statement-breakpoint
CREATE UNIQUE INDEX "events_by_key" ON "events" USING btree ("idempotency_key") WHERE tenant_id is null and idempotency_key is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "events_by_tenant_and_key" ON "events" USING btree ("tenant_id","idempotency_key") WHERE tenant_id is not null and idempotency_key is not null;--> statement-breakpoint
CREATE INDEX "events_by_topic" ON "events" USING btree ("topic","ordinal");--> statement-breakpoint
CREATE INDEX "events_by_time" ON "events" USING btree ("published_at","ordinal");--> statement-breakpoint
CREATE INDEX "events_due" ON "events" USING btree ("due_at") WHERE due_at is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "forks_heir" ON "forks" USING btree ("origin_id") WHERE inherits;--> statement-breakpoint
CREATE INDEX "held_keys_by_run" ON "held_keys" USING btree ("run_id");--> statement-breakpoint
CREATE INDEX "inbox_due" ON "inbox" USING btree ("shard","due_at");--> statement-breakpoint
CREATE INDEX "outbox_due" ON "outbox" USING btree ("shard","due_at");--> statement-breakpoint
CREATE INDEX "outgoing_events_by_shard" ON "outgoing_events" USING btree ("shard","ordinal");--> statement-breakpoint
CREATE INDEX "rate_tickets_open" ON "rate_tickets" USING btree ("scope","key","tenant_id","ticket") WHERE at_us is null or returned;--> statement-breakpoint
CREATE INDEX "rate_tickets_given" ON "rate_tickets" USING btree ("scope","key","tenant_id","at_us") WHERE at_us is not null;--> statement-breakpoint
CREATE INDEX "run_commands_expiring" ON "run_commands" USING btree ("at") WHERE not keep;--> statement-breakpoint
CREATE INDEX "run_end_totals" ON "run_end_counts" USING btree ("workflow_id","version") WHERE minute = '-infinity';--> statement-breakpoint
CREATE INDEX "run_labels_by_value" ON "run_labels" USING btree ("name","value","run_id");--> statement-breakpoint
CREATE INDEX "runs_by_start" ON "runs" USING btree ("started_at","id");--> statement-breakpoint
CREATE INDEX "runs_by_workflow" ON "runs" USING btree ("workflow_id","started_at","id");--> statement-breakpoint
CREATE INDEX "runs_by_version" ON "runs" USING btree ("workflow_id","version","started_at","id");--> statement-breakpoint
CREATE INDEX "runs_by_tenant" ON "runs" USING btree ("tenant_id","started_at","id") WHERE tenant_id is not null;--> statement-breakpoint
CREATE INDEX "runs_by_trigger" ON "runs" USING btree ("trigger_id","started_at","id") WHERE trigger_id is not null;--> statement-breakpoint
CREATE INDEX "runs_by_key" ON "runs" USING btree ("business_key" collate "C","started_at","id") WHERE business_key is not null;--> statement-breakpoint
CREATE INDEX "runs_of_roots" ON "runs" USING btree ("started_at","id") WHERE parent_run_id is null;--> statement-breakpoint
CREATE INDEX "runs_in_review" ON "runs" USING btree ("started_at","id") WHERE requires_manual_review;--> statement-breakpoint
CREATE INDEX "runs_unfinished" ON "runs" USING btree ("started_at","id") WHERE terminal_at is null;--> statement-breakpoint
CREATE INDEX "runs_by_ended_as" ON "runs" USING btree ("ended_as","started_at","id") WHERE ended_as is not null;--> statement-breakpoint
CREATE INDEX "runs_by_workflow_and_end" ON "runs" USING btree ("workflow_id","ended_as","started_at","id") WHERE ended_as is not null;--> statement-breakpoint
CREATE INDEX "runs_by_ended_in" ON "runs" USING btree ("ended_in","started_at","id") WHERE ended_in is not null;--> statement-breakpoint
CREATE INDEX "runs_by_ended_with" ON "runs" USING btree ("ended_with","started_at","id") WHERE ended_with <> '';--> statement-breakpoint
CREATE INDEX "runs_held" ON "runs" USING btree ("held_as","started_at","id") WHERE held_as is not null;--> statement-breakpoint
CREATE INDEX "runs_by_parent" ON "runs" USING btree ("parent_run_id","parent_entry") WHERE parent_run_id is not null;--> statement-breakpoint
CREATE INDEX "runs_by_family" ON "runs" USING btree ("family_run_id") WHERE family_run_id is not null;--> statement-breakpoint
CREATE INDEX "runs_in_flight" ON "runs" USING btree ("workflow_id") WHERE terminal_at is null;--> statement-breakpoint
CREATE INDEX "runs_ended" ON "runs" USING btree ("workflow_id","terminal_at") WHERE terminal_at is not null;--> statement-breakpoint
CREATE INDEX "runs_by_end" ON "runs" USING btree ("terminal_at","id") WHERE terminal_at is not null;--> statement-breakpoint
CREATE INDEX "runs_expiring" ON "runs" USING btree ("workflow_id","ended_as","terminal_at","id") WHERE terminal_at is not null and parent_run_id is null;--> statement-breakpoint
CREATE INDEX "sessions_by_actor" ON "sessions" USING btree ("actor","created_at");--> statement-breakpoint
CREATE INDEX "sessions_by_end" ON "sessions" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "signals_by_run" ON "signals" USING btree ("run_id","signal_name","ordinal");--> statement-breakpoint
CREATE INDEX "trigger_fires_by_trigger" ON "trigger_fires" USING btree ("trigger_id","fired_at","id");--> statement-breakpoint
CREATE INDEX "trigger_fires_due" ON "trigger_fires" USING btree ("due_at") WHERE due_at is not null;--> statement-breakpoint
CREATE INDEX "trigger_fires_by_time" ON "trigger_fires" USING btree ("fired_at");--> statement-breakpoint
CREATE INDEX "triggers_due" ON "triggers" USING btree ("shard","next_fire_at");--> statement-breakpoint
CREATE INDEX "triggers_by_transition" ON "triggers" USING btree ((config->>'record_type'),(config->>'from_state'),(config->>'to_state')) WHERE trigger_type = 'record_transition' and enabled;--> statement-breakpoint
CREATE INDEX "undo_by_owner" ON "undo" USING btree ("owner_run_id","ordinal");--> statement-breakpoint
CREATE INDEX "user_tasks_by_run" ON "user_tasks" USING btree ("run_id");--> statement-breakpoint
CREATE INDEX "user_tasks_by_time" ON "user_tasks" USING btree ("opened_at","id");--> statement-breakpoint
CREATE INDEX "user_tasks_by_assignee" ON "user_tasks" USING btree ("assignee","opened_at","id");--> statement-breakpoint
CREATE INDEX "erased_runs_owed" ON "erased_runs" USING btree ("root_run_id","run_id") WHERE owed;--> statement-breakpoint
CREATE INDEX "user_tasks_open" ON "user_tasks" USING btree ("assignee","opened_at","id") WHERE closed_at is null;--> statement-breakpoint
CREATE INDEX "wakes_due" ON "wakes" USING btree ("shard","due_at");--> statement-breakpoint
-- What drizzle cannot say, from here on; before, `PARTITION BY` alone. test/store/baseline.test.ts has the list of it.
--
-- Rows outside every partition that the maintainer has made land in the default one: late is better than lost.
CREATE TABLE "run_events_default" PARTITION OF "run_events" DEFAULT;
--> statement-breakpoint
-- Hot rows are updated in place (HOT): room on the page, and vacuum early.
ALTER TABLE "runs" SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
--> statement-breakpoint
ALTER TABLE "wakes" SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
--> statement-breakpoint
ALTER TABLE "outbox" SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
--> statement-breakpoint
ALTER TABLE "inbox" SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
--> statement-breakpoint
ALTER TABLE "outgoing_events" SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
--> statement-breakpoint
ALTER TABLE "concurrency_tickets" SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
--> statement-breakpoint
ALTER TABLE "rate_tickets" SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
--> statement-breakpoint
ALTER TABLE "rate_buckets" SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
--> statement-breakpoint
ALTER TABLE "run_variables" SET (fillfactor = 85);
--> statement-breakpoint
ALTER TABLE "bulk_jobs" SET (fillfactor = 70);
--> statement-breakpoint
-- A terminal run never changes (law 4). The commit statement does not try; this guard, in depth, skips such a row silently,
-- so that the rest of its batch lives. A run without a tenant may still be given to one (adoption.ts).
CREATE FUNCTION "keep_terminal_run"() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
--> statement-breakpoint
CREATE TRIGGER "runs_terminal_guard" BEFORE UPDATE ON "runs" FOR EACH ROW WHEN (OLD."terminal_at" IS NOT NULL AND (OLD."tenant_id" IS NOT NULL OR NEW."tenant_id" IS NULL)) EXECUTE FUNCTION "keep_terminal_run"();
--> statement-breakpoint
-- The variables of a kept scope. Its manifest names them: {"own": {name: value}, "shared": {name: hash}}; a large one is a kept value itself.
CREATE FUNCTION "kept_variables"("of_holder" uuid, "manifest" json, "manifest_hash" uuid) RETURNS json LANGUAGE sql STABLE AS '
  with named as materialized (
    select coalesce(manifest, (select k.value from kept_values k where k.holder = of_holder and k.hash = manifest_hash)) as manifest
  )
  select coalesce(json_object_agg(variable.name, variable.value), ''{}''::json) from (
    select own.key as name, own.value from named, json_each(named.manifest->''own'') own
    union all
    select shared.key, kept.value from named, json_each_text(named.manifest->''shared'') shared
      left join kept_values kept on kept.holder = of_holder and kept.hash = shared.value::uuid
  ) variable';
--> statement-breakpoint
-- Nothing is counted yet: see end-counts.ts.
INSERT INTO "end_horizon" ("id", "since", "until") VALUES (1, '-infinity', '-infinity');
--> statement-breakpoint
-- The ten seconds are those of end-counts.ts. The clock of another server may be behind: then the horizon is ahead of an end that is not late.
-- Rows are only added, so that no commit waits for another one; a node adds them up.
CREATE FUNCTION "note_run_end"() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
  IF NEW.terminal_at < now() - interval ''10 seconds'' OR NEW.terminal_at < (SELECT until FROM end_horizon WHERE id = 1) THEN
    INSERT INTO run_end_changes (workflow_id, version, tenant_id, root, ended_as, change, ended_at, run_id) VALUES (NEW.workflow_id,
      NEW.version, coalesce(NEW.tenant_id, ''00000000-0000-0000-0000-000000000000''), NEW.parent_run_id IS NULL, NEW.state, 1,
      NEW.terminal_at, NEW.id);
  END IF;
  RETURN NEW;
END';
--> statement-breakpoint
CREATE TRIGGER "runs_end" BEFORE UPDATE ON "runs" FOR EACH ROW WHEN (OLD."terminal_at" IS NULL AND NEW."terminal_at" IS NOT NULL) EXECUTE FUNCTION "note_run_end"();
--> statement-breakpoint
CREATE TRIGGER "runs_ended_at_once" BEFORE INSERT ON "runs" FOR EACH ROW WHEN (NEW."terminal_at" IS NOT NULL) EXECUTE FUNCTION "note_run_end"();
--> statement-breakpoint
-- The lock: whoever counts is done, or has not begun.
CREATE FUNCTION "note_runs_gone"() RETURNS trigger LANGUAGE plpgsql AS 'DECLARE
  counted timestamptz;
BEGIN
  SELECT until INTO counted FROM end_horizon WHERE id = 1 FOR SHARE;
  INSERT INTO run_end_changes (workflow_id, version, tenant_id, root, ended_as, change)
  SELECT workflow_id, version, coalesce(tenant_id, ''00000000-0000-0000-0000-000000000000''), parent_run_id IS NULL, state, -count(*)
  FROM gone WHERE terminal_at < counted GROUP BY 1, 2, 3, 4, 5;
  RETURN NULL;
END';
--> statement-breakpoint
CREATE TRIGGER "runs_gone" AFTER DELETE ON "runs" REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION "note_runs_gone"();
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
-- The ticket of a run that an operator has paused, or that is in quarantine, keeps its place and is passed over: its slot would stand idle while those
-- behind it wait. A run that is refused rather than queued has no place to keep, so its ticket is granted all the same.
CREATE FUNCTION "is_passed_over"("p_run" uuid, "p_on_limit" text) RETURNS boolean LANGUAGE sql STABLE AS
  'SELECT p_on_limit <> ''refuse'' AND EXISTS (SELECT 1 FROM runs WHERE id = p_run AND paused_reason IN (''operator'', ''quarantine''))';
--> statement-breakpoint
-- The tickets of a key that have the next turns, where some have a precedence: levels take turns in the ratio 16 : 8 : 4 : 2 : 1, as machines/state/precedence.ts says,
-- and the fairness keys of a level by their weights, as in src/dispatch/precedence-queue.ts. What it goes by stands on waiting tickets, under the lock of the key: on the
-- first ticket of a fairness key, when the key has its turn; on the ticket that has waited longest, the turn of a level that was taken last. A key that has just come
-- joins behind the one whose turn is next, by one turn of its own. It looks at 1,000 fairness keys at most, and at as many tickets of each as it may grant.
CREATE FUNCTION "grant_in_turn"("p_scope" text, "p_key" text, "p_tenant" uuid, "p_held" integer, "p_most" integer)
RETURNS TABLE ("to_run" uuid, "inbox_id" uuid, "sent" json) LANGUAGE plpgsql AS $$DECLARE
  held integer := p_held;
  told integer := 0;
  last integer;
  turn_of integer;
  found_at integer;
  tickets bigint[];
  levels integer[];
  next_at integer[] := ARRAY[0, 0, 0, 0, 0];
  granted bigint[] := '{}';
  turns double precision[];
  one record;
BEGIN
  SELECT t.level_turn INTO last FROM concurrency_tickets t
  WHERE t.scope = p_scope AND t.key = p_key AND t.tenant_id = p_tenant AND t.granted_at IS NULL ORDER BY t.ticket LIMIT 1;
  last := coalesce(last, 0);
  WITH RECURSIVE flows(priority, fairness_key, nth) AS (
    (SELECT t.priority, t.fairness_key, 1 FROM concurrency_tickets t
      WHERE t.scope = p_scope AND t.key = p_key AND t.tenant_id = p_tenant AND t.granted_at IS NULL AND t.priority IS NOT NULL
      ORDER BY t.priority, t.fairness_key LIMIT 1)
    UNION ALL
    SELECT following.priority, following.fairness_key, flows.nth + 1 FROM flows CROSS JOIN LATERAL (
      SELECT t.priority, t.fairness_key FROM concurrency_tickets t
      WHERE t.scope = p_scope AND t.key = p_key AND t.tenant_id = p_tenant AND t.granted_at IS NULL AND t.priority IS NOT NULL
        AND (t.priority, t.fairness_key) > (flows.priority, flows.fairness_key)
      ORDER BY t.priority, t.fairness_key LIMIT 1
    ) following WHERE flows.nth < 1000
  ), waiting AS (
    SELECT flows.priority::integer AS level, flows.fairness_key AS flow, w.ticket, w.weight, w.turn FROM flows CROSS JOIN LATERAL (
      SELECT t.ticket, t.fairness_weight AS weight, t.turn FROM concurrency_tickets t
      WHERE t.scope = p_scope AND t.key = p_key AND t.tenant_id = p_tenant AND t.granted_at IS NULL
        AND t.priority = flows.priority AND t.fairness_key = flows.fairness_key
        AND t.reserved_until IS NULL AND t.cancelled_at IS NULL AND NOT is_passed_over(t.run_id, t.on_limit)
      ORDER BY t.ticket LIMIT p_most + 1
    ) w
    UNION ALL
    SELECT 3, '', w.ticket, 1, w.turn FROM (
      SELECT t.ticket, t.turn FROM concurrency_tickets t
      WHERE t.scope = p_scope AND t.key = p_key AND t.tenant_id = p_tenant AND t.granted_at IS NULL AND t.priority IS NULL
        AND t.reserved_until IS NULL AND t.cancelled_at IS NULL AND NOT is_passed_over(t.run_id, t.on_limit)
      ORDER BY t.ticket LIMIT p_most + 1
    ) w
  ), placed AS (
    SELECT level, flow, ticket, row_number() OVER in_flow - 1 AS place, first_value(weight) OVER in_flow AS weight,
      min(turn) OVER (PARTITION BY level, flow) AS first_turn, coalesce(min(turn) OVER (PARTITION BY level), 0) AS level_time
    FROM waiting WINDOW in_flow AS (PARTITION BY level, flow ORDER BY ticket)
  ), timed AS (
    SELECT level, flow, ticket, coalesce(first_turn, level_time + 1 / weight) + place / weight AS turn FROM placed
  )
  SELECT array_agg(timed.ticket ORDER BY timed.level, timed.turn, timed.ticket), array_agg(timed.level ORDER BY timed.level, timed.turn, timed.ticket),
    array_agg(timed.turn ORDER BY timed.level, timed.turn, timed.ticket) INTO tickets, levels, turns FROM timed;
  FOR at IN REVERSE coalesce(array_length(levels, 1), 0) .. 1 LOOP
    next_at[levels[at]] := at;
  END LOOP;
  WHILE told < p_most LOOP
    found_at := 0;
    turn_of := last;
    FOR nth IN 1 .. 31 LOOP
      turn_of := turn_of % 31 + 1;
      found_at := next_at[CASE WHEN turn_of & 1 > 0 THEN 1 WHEN turn_of & 2 > 0 THEN 2 WHEN turn_of & 4 > 0 THEN 3 WHEN turn_of & 8 > 0 THEN 4 ELSE 5 END];
      EXIT WHEN found_at > 0;
    END LOOP;
    EXIT WHEN found_at = 0;
    next_at[levels[found_at]] := CASE WHEN levels[found_at + 1] = levels[found_at] THEN found_at + 1 ELSE 0 END;
    SELECT t.run_id, t.entry, t.shard, t.slot_limit INTO one FROM concurrency_tickets t
    WHERE t.scope = p_scope AND t.key = p_key AND t.tenant_id = p_tenant AND t.ticket = tickets[found_at] AND t.granted_at IS NULL FOR UPDATE SKIP LOCKED;
    -- A commit has locked it: it is about to go.
    CONTINUE WHEN NOT FOUND;
    EXIT WHEN held >= one.slot_limit;
    UPDATE concurrency_tickets t SET granted_at = clock_timestamp(), turn = NULL, level_turn = NULL WHERE t.run_id = one.run_id AND t.entry = one.entry;
    last := turn_of;
    held := held + 1;
    told := told + 1;
    granted := granted || tickets[found_at];
    to_run := one.run_id;
    sent := json_build_object('type', 'slot_granted', 'entry', one.entry);
    inbox_id := tell_run(to_run, one.shard, sent);
    RETURN NEXT;
  END LOOP;
  IF told = 0 THEN
    RETURN;
  END IF;
  UPDATE concurrency_tickets t SET turn = first.turn FROM (
    SELECT DISTINCT ON (f.level, f.flow) f.run_id, f.entry, f.turn, f.known FROM (
      SELECT l.level, coalesce(c.fairness_key, '') AS flow, c.ticket, c.run_id, c.entry, l.turn, c.turn AS known
      FROM unnest(tickets, levels, turns) AS l(ticket, level, turn) JOIN concurrency_tickets c
        ON c.scope = p_scope AND c.key = p_key AND c.tenant_id = p_tenant AND c.ticket = l.ticket AND c.granted_at IS NULL
      WHERE l.ticket <> ALL (granted)
    ) f ORDER BY f.level, f.flow, f.ticket
  ) first WHERE t.run_id = first.run_id AND t.entry = first.entry AND first.known IS DISTINCT FROM first.turn
    AND EXISTS (SELECT 1 FROM concurrency_tickets free WHERE free.run_id = first.run_id AND free.entry = first.entry FOR UPDATE SKIP LOCKED);
  UPDATE concurrency_tickets t SET level_turn = last FROM (
    SELECT o.run_id, o.entry FROM concurrency_tickets o
    WHERE o.scope = p_scope AND o.key = p_key AND o.tenant_id = p_tenant AND o.granted_at IS NULL ORDER BY o.ticket LIMIT 1 FOR UPDATE SKIP LOCKED
  ) oldest WHERE t.run_id = oldest.run_id AND t.entry = oldest.entry;
END$$;
--> statement-breakpoint
-- Gives the free slots of a key to those that have waited longest, or whose turn it is, and tells them so in the same transaction. A ticket that a commit has locked is about
-- to go: it is passed over, so nothing here waits for a commit. Each ticket is looked at once: the next one is searched behind the one before. At most
-- 200 of each kind at once; the caller asks again then. `p_room`: how many may wait, where that is to be checked; those that a client's start was
-- accepted for stay in any case.
CREATE FUNCTION "grant_slots"("p_scope" text, "p_key" text, "p_tenant" uuid, "p_room" integer)
RETURNS TABLE ("to_run" uuid, "inbox_id" uuid, "sent" json) LANGUAGE plpgsql AS $$DECLARE
  held integer;
  told integer := 0;
  last bigint := 0;
  newest_limit integer;
  in_turn boolean;
  one record;
BEGIN
  PERFORM lock_slot_key(p_scope, p_key, p_tenant);
  SELECT on_limit, slot_limit INTO one FROM concurrency_tickets
  WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant ORDER BY ticket DESC LIMIT 1;
  newest_limit := one.slot_limit;
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
  in_turn := EXISTS (SELECT 1 FROM concurrency_tickets
    WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant AND granted_at IS NULL AND priority IS NOT NULL);
  IF in_turn THEN
    -- An older version of the workflow may have allowed more.
    SELECT greatest(newest_limit, slot_limit) INTO newest_limit FROM concurrency_tickets
    WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant AND granted_at IS NULL ORDER BY ticket LIMIT 1;
    IF held < newest_limit THEN
      RETURN QUERY SELECT * FROM grant_in_turn(p_scope, p_key, p_tenant, held, least(newest_limit - held, 200));
      GET DIAGNOSTICS told = ROW_COUNT;
    END IF;
  END IF;
  WHILE NOT in_turn LOOP
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
--> statement-breakpoint
-- Gives those that have asked for a turn of a key the moments of its next tokens, in the order of the asks, and tells them so in the same transaction. The
-- bucket is the moment at which it is full if no more tokens are taken ("full_us"): a token costs "step_us", and is there once no more than "burst" of
-- them are missing. All times are microseconds, so that no rate is rounded up. A ticket that a commit has locked is about to go, or to be asked for anew: it is
-- passed over. At most 200 of each kind at once; the caller asks again then. `p_room`: how many may wait; those that a client's start was accepted for stay in
-- any case. The lock is "turn" in ASCII; must never change: releases that run side by side have to agree on it.
CREATE FUNCTION "give_turns"("p_scope" text, "p_key" text, "p_tenant" uuid, "p_room" integer)
RETURNS TABLE ("to_run" uuid, "inbox_id" uuid, "sent" json) LANGUAGE plpgsql AS $$DECLARE
  moment bigint;
  last_turn bigint;
  bucket record;
  filled bigint;
  cost bigint;
  given bigint;
  waiting integer;
  one record;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(p_tenant::text || '/' || p_scope || '/' || p_key, 1953854062));
  moment := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  SELECT full_us, step_us, burst INTO bucket FROM rate_buckets WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant;
  -- What is not used. The newest one goes back into the bucket; one between two others is no longer counted by the one behind it, so that it goes back with that one.
  FOR one IN
    SELECT run_id, entry, before_us, after_us, rate_limit, per_ms, burst FROM rate_tickets
    WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant AND returned
    ORDER BY at_us DESC NULLS LAST LIMIT 200 FOR UPDATE SKIP LOCKED
  LOOP
    DELETE FROM rate_tickets t WHERE t.run_id = one.run_id AND t.entry = one.entry;
    cost := ceil(one.per_ms * 1000::numeric / one.rate_limit);
    IF one.after_us = bucket.full_us AND cost = bucket.step_us AND one.burst = bucket.burst THEN
      bucket.full_us := one.before_us;
      UPDATE rate_buckets b SET full_us = one.before_us WHERE b.scope = p_scope AND b.key = p_key AND b.tenant_id = p_tenant;
    ELSIF one.after_us IS NOT NULL THEN
      UPDATE rate_tickets t SET before_us = one.before_us WHERE t.scope = p_scope AND t.key = p_key AND t.tenant_id = p_tenant
        AND t.before_us = one.after_us AND t.rate_limit = one.rate_limit AND t.per_ms = one.per_ms AND t.burst = one.burst;
    END IF;
  END LOOP;
  SELECT max(at_us) INTO last_turn FROM rate_tickets WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant;
  last_turn := greatest(last_turn, moment);
  FOR one IN
    SELECT run_id, entry, shard, rate_limit, per_ms, burst, admitted FROM rate_tickets
    WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant AND at_us IS NULL AND NOT returned
    ORDER BY ticket LIMIT 200 FOR UPDATE SKIP LOCKED
  LOOP
    cost := ceil(one.per_ms * 1000::numeric / one.rate_limit);
    filled := greatest(bucket.full_us, moment);
    -- Another version has another rate: the turns that were given stay, and as many tokens are missing as before, at most all.
    IF bucket.step_us <> cost OR bucket.burst <> one.burst THEN
      IF last_turn > moment THEN
        filled := last_turn + one.burst * cost;
      ELSE
        filled := moment + least(ceil((filled - moment)::numeric * cost / bucket.step_us), one.burst * cost)::bigint;
      END IF;
    END IF;
    -- No token that was used is missing for longer, whatever became of those that were not, and of the clock.
    filled := least(filled, last_turn + one.burst * cost);
    given := greatest(moment, filled + cost - one.burst * cost);
    to_run := one.run_id;
    IF given > moment AND NOT one.admitted AND p_room IS NOT NULL THEN
      IF waiting IS NULL THEN
        SELECT count(*) INTO waiting FROM (SELECT 1 FROM rate_tickets WHERE scope = p_scope AND key = p_key AND tenant_id = p_tenant
          AND at_us > moment AND NOT returned LIMIT p_room) w;
      END IF;
      IF waiting >= p_room THEN
        DELETE FROM rate_tickets t WHERE t.run_id = one.run_id AND t.entry = one.entry;
        sent := json_build_object('type', 'turn_refused', 'entry', one.entry);
        inbox_id := tell_run(to_run, one.shard, sent);
        RETURN NEXT;
        CONTINUE;
      END IF;
    END IF;
    IF given > moment THEN
      waiting := waiting + 1;
      last_turn := given;
    END IF;
    INSERT INTO rate_buckets AS b (tenant_id, scope, key, full_us, step_us, burst)
    VALUES (p_tenant, p_scope, p_key, filled + cost, cost, one.burst)
    ON CONFLICT ON CONSTRAINT rate_buckets_scope_key_tenant_id_pk DO UPDATE SET full_us = excluded.full_us, step_us = excluded.step_us, burst = excluded.burst
    RETURNING b.full_us, b.step_us, b.burst INTO bucket;
    UPDATE rate_tickets t SET at_us = given, before_us = filled, after_us = filled + cost WHERE t.run_id = one.run_id AND t.entry = one.entry;
    -- In milliseconds, never before the token is there.
    sent := json_build_object('type', 'turn_given', 'entry', one.entry, 'at', CASE WHEN given > moment THEN (given + 999) / 1000 ELSE given / 1000 END);
    inbox_id := tell_run(to_run, one.shard, sent);
    RETURN NEXT;
  END LOOP;
END$$;
--> statement-breakpoint
-- The second wall of clients' reads: row-level security, which the owner of the tables is not under. `saga.tenants` has the tenants of a read, UUIDs by
-- comma, or `*`: everything, with what belongs to no tenant. It is set within the transaction of the read; unset there are no rows. `none`: the session
-- takes reads, and this statement is of none that has begun on it (reader-session.ts); it fails as on a lost session.
CREATE FUNCTION "read_scope"() RETURNS text LANGUAGE plpgsql STABLE AS $$DECLARE
  tenants text := coalesce(current_setting('saga.tenants', true), '');
BEGIN
  IF tenants = 'none' THEN
    RAISE EXCEPTION 'no read has begun on this session' USING ERRCODE = 'connection_does_not_exist';
  END IF;
  RETURN tenants;
END$$;
--> statement-breakpoint
CREATE FUNCTION "reads_all"() RETURNS boolean LANGUAGE sql STABLE AS 'SELECT read_scope() = ''*''';
--> statement-breakpoint
CREATE FUNCTION "read_tenants"() RETURNS uuid[] LANGUAGE sql STABLE AS
  'SELECT CASE WHEN reads_all() THEN ''{}'' ELSE string_to_array(read_scope(), '','')::uuid[] END';
--> statement-breakpoint
-- What a read of tenants sees. A table without a policy has no rows for anyone but its owner, and the reading roles no right to it. Each table with this
-- policy gets another one, for the role that reads everything (reader-role.ts): for the same role the two would be one condition with an `or`, and the
-- half of it that names tenants is a range of an index only where it stands alone. What belongs to a run is looked up there, row by row: without the
-- offset it might be planned as a reading of all runs.
DO $$DECLARE
  own text := 'tenant_id = ANY ((SELECT read_tenants())::uuid[])';
  one text;
BEGIN
  FOREACH one IN ARRAY ARRAY['runs', 'run_end_counts', 'run_end_changes', 'triggers', 'bulk_jobs', 'shared_actions'] LOOP
    EXECUTE format('CREATE POLICY readers ON %I FOR SELECT USING (%s)', one, own);
  END LOOP;
  -- The platform's are everyone's to use, but for those that are for one tenant.
  FOREACH one IN ARRAY ARRAY['definitions', 'rules'] LOOP
    EXECUTE format('CREATE POLICY readers ON %I FOR SELECT USING (%s
      OR tenant_id IS NULL AND (for_tenant IS NULL OR lower(for_tenant) = ANY ((SELECT read_tenants())::text[])))', one, own);
  END LOOP;
  EXECUTE format('CREATE POLICY readers ON actions FOR SELECT USING (tenant_id IS NULL OR %s
    OR EXISTS (SELECT FROM shared_actions s WHERE s.action_id = id OFFSET 0))', own);
  FOR one IN
    SELECT format('CREATE POLICY readers ON %I FOR SELECT USING (EXISTS (SELECT FROM %I o WHERE o.id = %I OFFSET 0))', part, owner, by)
    FROM (VALUES ('run_starts', 'runs', 'run_id'), ('run_labels', 'runs', 'run_id'), ('run_variables', 'runs', 'run_id'),
      ('run_events', 'runs', 'run_id'), ('kept_scopes', 'runs', 'run_id'), ('kept_entries', 'runs', 'run_id'), ('forks', 'runs', 'origin_id'),
      ('kept_values', 'runs', 'holder'), ('signals', 'runs', 'run_id'),
      ('undo', 'runs', 'owner_run_id'), ('user_tasks', 'runs', 'run_id'), ('concurrency_tickets', 'runs', 'run_id'), ('rate_tickets', 'runs', 'run_id'),
      ('bulk_targets', 'bulk_jobs', 'bulk_id'), ('trigger_fires', 'triggers', 'trigger_id')) parts (part, owner, by)
  LOOP
    EXECUTE one;
  END LOOP;
  -- No tenant's. Outside of a read it fails, as the others do.
  FOREACH one IN ARRAY ARRAY['nodes', 'wakes', 'inbox', 'outbox'] LOOP
    EXECUTE format('CREATE POLICY readers ON %I FOR SELECT USING ((SELECT read_tenants()) IS NULL)', one);
  END LOOP;
  -- Times alone.
  CREATE POLICY readers ON end_horizon FOR SELECT USING (true);
  FOR one IN SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', one);
  END LOOP;
END$$;
