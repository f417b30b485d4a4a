// What serves the runs, as JSON Schemas: actions, workers, nodes; and the envelope of errors. Runs and definitions are in the files beside.
import * as Type from "typebox";
import { Bool, Free, Int, opt, Text, Time, Uuid } from "./kinds.js";

const ClusterNode = Type.Object({
  node_id: Uuid,
  host: opt(Type.String({ description: "Where it runs. Absent: a node of a release that did not say it." })),
  process_id: opt(Type.Integer({ description: "Its process there." })),
  started_at: Time,
  heartbeat_at: Time,
  alive: Type.Boolean({ description: "Its heartbeat is not stale." }),
  access: Type.String({ enum: ["off", "on"], description: "Its access control." }),
  shards: Type.Integer({ description: "The shards that it owns while these nodes are alive." }),
  record_format: Type.Integer({ description: "The newest format of stored runs that it reads." }),
  version: opt(Type.String({ description: "The release. Known of the node that answers only." })),
  draining: opt(
    Type.Boolean({ description: "It stops, and takes no more work. Known of the node that answers only." }),
  ),
});

const API_KEY = {
  id: Type.String({ description: "The part of the key that is no secret; in the audit log it is `key:<id>`." }),
  name: Text,
  roles: Type.Array(Text),
  tenant_id: opt(Uuid),
  tenants: opt(Type.Array(Uuid, { description: "The only tenants that a key of the platform serves." })),
  workflows: opt(Type.Array(Text, { description: "Absent: all." })),
  services: opt(Type.Array(Text, { description: "Absent: none." })),
  secrets: opt(Type.Array(Text, { description: "Absent: none." })),
  created_at: Time,
  created_by: Text,
  expires_at: opt(Time),
  revoked_at: opt(Time),
  last_used_at: opt(Type.String({ format: "date-time", description: "Written at most once a minute." })),
};

export const SERVICE_RESOURCES = {
  Error: Type.Object({
    error: Type.String({ description: "A stable code." }),
    message: Text,
    details: opt(Type.Array(Type.Object({ path: Type.String({ description: "A JSON path." }), message: Text }))),
    details_truncated: opt(Type.Boolean({ description: "There were more: an answer has at most 64 KiB." })),
    signal_id: opt(Type.String({ format: "uuid", description: "Of a signal that no run awaits." })),
    recorded: opt(
      Type.Boolean({ description: "The signal is kept: a later wait takes it, unless the run has ended." }),
    ),
    run_id: opt(
      Type.String({
        format: "uuid",
        description: "The run that holds the business key, that was started, or that has inherited the undo.",
      }),
    ),
    state: opt(Type.String({ description: "Of the run that holds the business key." })),
    request_id: Text,
  }),
  ApiKey: Type.Object(API_KEY),
  DataKeys: Type.Object({
    tenant_id: Uuid,
    active: Type.Integer({ description: "Keys that values are sealed with, or were." }),
    destroyed: Type.Integer({ description: "Keys that were destroyed." }),
    destroyed_at: opt(Time),
    unfinished_runs: Type.Integer({
      description: "Runs that have values under destroyed keys and have not ended yet, counted up to 10,000.",
    }),
  }),
  NewApiKey: Type.Object({ ...API_KEY, key: Type.String({ description: "The credential. It is shown once." }) }),
  Principal: Type.Object({
    kind: Type.String({
      enum: ["user", "key", "worker", "session", "anyone"],
      description: "`anyone`: there is no access control.",
    }),
    sub: Type.String({ description: "The subject of a token, or the id of an API key." }),
    roles: Type.Array(Text),
    tenant_id: opt(Uuid),
    tenants: opt(Type.Array(Uuid, { description: "The only tenants that it serves." })),
    workflows: opt(Type.Array(Text, { description: "Absent: all." })),
    services: opt(Type.Array(Text, { description: "Absent: none." })),
    secrets: opt(Type.Array(Text, { description: "Absent: none." })),
    expires_at: opt(Time),
  }),
  ActionRegistration: Type.Object({
    id: Uuid,
    service: Text,
    action_name: Text,
    version: Int,
    description: opt(Text),
    category: opt(Text),
    compensable: Bool,
    input_schema: Free,
    output_schema: Free,
    error_codes: opt(Type.Array(Text)),
    default_retry: opt(Free),
    default_timeout_ms: opt(Int),
    deprecated: Bool,
    registered_at: Time,
    service_version: opt(Text),
    dry_run_supported: Bool,
    license_group: opt(Text),
    transport: Type.String({ enum: ["grpc", "http", "rmq"] }),
    address: opt(Text),
  }),
  ChangedRegistration: Type.Object({
    service: Text,
    action_name: Text,
    version: Int,
    members: Type.Array(Text, { description: "The members that differ." }),
  }),
  Worker: Type.Object({
    worker_id: Text,
    service: Text,
    actions: Type.Array(Text, { description: "`name` or `name@version`. Empty: every action of the service." }),
    transport: Type.String({ enum: ["grpc", "http", "rmq"] }),
    node_id: Type.String({ description: "The node that it is connected to." }),
    tenants: opt(Type.Array(Uuid, { description: "Whose runs it serves. Absent: those of all, and of none." })),
    connected_at: Time,
    in_flight: Type.Integer({ description: "Steps that it holds." }),
    max_in_flight: Type.Integer({ description: "Steps that it may hold at once." }),
    draining: opt(Type.Boolean({ description: "It takes no more steps." })),
  }),
  UnservedAction: Type.Object({
    action: Text,
    transport: Type.String({ enum: ["grpc", "http", "rmq"] }),
    waiting: Type.Integer({ description: "Calls that wait for it." }),
    detail: opt(Text),
  }),
  Cluster: Type.Object({
    access: Type.String({ enum: ["off", "on"], description: "Access control. `off`: there is none." }),
    access_rollout: opt(Type.Boolean({ description: "Nodes of the other mode may run beside this one." })),
    nodes: Type.Array(ClusterNode, {
      description: "Those with a heartbeat within the last ten minutes, the oldest first.",
    }),
    shards: Type.Object({
      count: Int,
      unowned: Type.Integer({ description: "No node is alive to own them." }),
    }),
    backlog: Type.Object({
      wakes_due: Type.Integer({ description: "Runs that have to be woken, and that no node has leased." }),
      oldest_due_ms: opt(Type.Integer({ description: "For how long the oldest of them has been due." })),
      inbox: Type.Integer({ description: "Commands from run to run that are not answered." }),
      outbox: Type.Integer({ description: "Dispatches and posts that are not delivered." }),
      waiting_for_workers: Type.Integer({
        description: "Calls of actions that wait for a worker, those included whose worker is gone.",
      }),
      count_is_lower_bound: opt(Type.Boolean({ description: "A number is 10000, and there are more." })),
    }),
    silent_nodes: opt(Type.Array(Text, { description: "Nodes that did not say in time what waits for workers." })),
  }),
};
