// The commands of operators: triggers, workers, bulk jobs, the archive, and what looks after a service.
import type { CommandEntry } from "../command.js";
import type { OptionEntry } from "../frame/option.js";
import { ARCHIVE, FILTERS, JSON_WORDS, KEY, LIMIT, VERSION } from "./options.js";

type TriggerAct = "get" | "fire" | "fires" | "backfill" | "enable" | "disable";

const triggerEntry = (name: TriggerAct, summary: string, options: readonly OptionEntry[] = []): CommandEntry => ({
  ...{
    name: `trigger ${name}`,
    group: "Operating",
    parameters: "<trigger>",
    summary,
    options,
    asks: true,
    prints: true,
  },
  load: async () => (await import("../operate/triggers.js"))[name],
});

const TRIGGERS: readonly CommandEntry[] = [
  {
    name: "trigger list",
    group: "Operating",
    parameters: "",
    summary: "Lists what starts runs by itself",
    options: [
      { flags: "--workflow <id>", says: "of this workflow" },
      { flags: "--type <type>", says: "of this type", choices: ["cron", "record_transition"] },
      LIMIT,
    ],
    asks: true,
    prints: true,
    load: async () => (await import("../operate/triggers.js")).list,
  },
  {
    name: "trigger create",
    group: "Operating",
    parameters: "[workflow]",
    summary: "Creates a trigger, and prints its id",
    options: [
      { flags: "--cron <schedule>", says: "five fields, in the local time of --time-zone" },
      { flags: "--time-zone <name>", says: "such as Europe/Vienna; default UTC" },
      { flags: "-i, --inputs <json>", says: `the inputs of every run: ${JSON_WORDS}` },
      { flags: "--overlap <policy>", says: "while an earlier run goes on; default allow", choices: ["allow", "skip"] },
      { flags: "--disabled", says: "not enabled yet" },
      { flags: "--document <json>", says: `instead of these, the whole trigger: ${JSON_WORDS}` },
      VERSION,
      KEY,
    ],
    examples: [`saga trigger create nightly --cron "30 2 * * 1-5"`],
    asks: true,
    prints: true,
    load: async () => (await import("../operate/triggers.js")).create,
  },
  triggerEntry("get", "Shows a trigger and its next ticks"),
  triggerEntry("fire", "Fires a trigger now, and prints the id of the run", [
    { flags: "-p, --payload <json>", says: `the payload of the event, for record_transition: ${JSON_WORDS}` },
    KEY,
  ]),
  triggerEntry("fires", "Lists what a trigger has started, and why it has not", [LIMIT]),
  triggerEntry("backfill", "Fires the ticks of a past range that have started no run, each once", [
    { flags: "--from <time>", says: "the first moment, such as 2026-11-01T00:00:00Z; needed" },
    { flags: "--to <time>", says: "the last one; default now" },
    { flags: "--dry-run", says: "list the ticks, fire none" },
  ]),
  triggerEntry("enable", "Enables a trigger: what passed meanwhile is not made up for"),
  triggerEntry("disable", "Disables a trigger", [{ flags: "--reason <text>", says: "why: shown until it is enabled" }]),
  {
    name: "trigger delete",
    group: "Operating",
    parameters: "<trigger>",
    summary: "Deletes a trigger; its runs go on",
    asks: true,
    prints: true,
    load: async () => (await import("../operate/triggers.js")).remove,
  },
];

const CONFIRM: OptionEntry = {
  flags: "--confirm <number>",
  says: "instead of typing it: the number of runs that match, or nothing is done",
};
const MOST: OptionEntry = { flags: "--most <number>", says: "refuse if more runs match; default 10000" };
const DETACH: OptionEntry = { flags: "--detach", says: "print the id of the job, and do not wait for its end" };
const TO: OptionEntry = { flags: "--to <version>", says: "the version to move to" };
const STEP: OptionEntry = { flags: "--step <old=new>", says: "a step that has another id there", many: true };
const CHECK: OptionEntry = { flags: "--check", says: "say whether it can be moved, and change nothing" };

const bulkEntry = (name: "get" | "stop" | "resume", summary: string): CommandEntry => ({
  ...{ name: `bulk ${name}`, group: "Operating", parameters: "<job>", summary, asks: true, prints: true },
  load: async () => (await import("../operate/bulk.js"))[name],
});

export const OPERATING: readonly CommandEntry[] = [
  ...TRIGGERS,
  {
    name: "workers",
    group: "Operating",
    parameters: "",
    summary: "Lists the connected workers, and what no worker serves",
    options: [
      { flags: "--service <name>", says: "of this service" },
      { flags: "--transport <name>", says: "over this transport", choices: ["grpc", "http", "rmq"] },
    ],
    asks: true,
    prints: true,
    load: async () => (await import("../operate/workers.js")).workers,
  },
  {
    name: "bulk run",
    group: "Operating",
    parameters: "<act>",
    summary: "Does one act to all runs that match, after a preview and a confirmation",
    details: `Acts: pause, resume, retry, skip, fail, retry-undo, skip-undo, terminate, release, cancel, signal, rerun. The filters are those of saga list; without
one every run matches. The exit code is 1 if a run refused. Ctrl-C ends the command, and the job goes on.`,
    options: [
      ...FILTERS,
      { flags: "--params <json>", says: `the body of the act: ${JSON_WORDS}` },
      CONFIRM,
      MOST,
      DETACH,
    ],
    examples: ["saga bulk run retry --workflow order --incident --error-code busy"],
    asks: true,
    prints: true,
    load: async () => (await import("../operate/bulk.js")).bulk,
  },
  {
    name: "bulk list",
    group: "Operating",
    parameters: "",
    summary: "Lists bulk jobs, the newest first",
    options: [LIMIT],
    asks: true,
    prints: true,
    load: async () => (await import("../operate/bulk.js")).list,
  },
  bulkEntry("get", "Shows a bulk job, and which runs refused"),
  bulkEntry("stop", "Stops a bulk job; what it has begun is finished"),
  bulkEntry("resume", "Lets a stopped bulk job go on with the runs that are left"),
  {
    name: "migrate run",
    group: "Operating",
    parameters: "<run>",
    summary: "Moves a run that waits to another version of its workflow",
    options: [TO, STEP, CHECK],
    examples: ["saga migrate run 0198f29d-51b6-7e3a-8c07-d2f94a1e6b85 --to 4 --check"],
    asks: true,
    prints: true,
    load: async () => (await import("../operate/bulk.js")).migrateRun,
  },
  {
    name: "migrate all",
    group: "Operating",
    parameters: "<workflow>",
    summary: "Moves all runs of a workflow to another version, after a preview and a confirmation",
    options: [
      TO,
      { flags: "--from <version>", says: "only those of this version" },
      STEP,
      CHECK,
      CONFIRM,
      MOST,
      DETACH,
    ],
    asks: true,
    prints: true,
    load: async () => (await import("../operate/bulk.js")).migrateAll,
  },
  {
    name: "bench",
    group: "Operating",
    parameters: "",
    summary: "Puts a small load on the service, and says how many runs a second it does, and how long each takes",
    details: `It publishes a workflow of three steps that do nothing, or with --grpc of three actions that a worker in this command serves. At the end it
unpublishes the workflow and terminates what has not ended; the runs stay, with the label saga-bench. The exit code is 1 if a run has not succeeded. After a Ctrl-C it tidies up, prints what
it has measured and ends with 130. With access control the token needs the roles author, operator and, with --grpc, worker.`,
    options: [
      { flags: "--runs <number>", says: "the most that are started; default 1000" },
      { flags: "--time <time>", says: "none is started after this time; default 60s" },
      { flags: "--concurrency <number>", says: "the most at once; default 16" },
      {
        flags: "--rate <number>",
        says: "starts a second; a latency counts from the moment at which a start is due. Default: each as soon as another one has ended",
      },
      { flags: "--grpc <host:port>", says: "the gRPC of the service, for the worker" },
      { flags: "--yes", says: "also if the service is not on this machine" },
    ],
    examples: ["saga bench", "saga bench --grpc 127.0.0.1:9090 --rate 50 --time 2m --runs 6000"],
    asks: true,
    prints: true,
    load: async () => (await import("../bench/index.js")).bench,
  },
  {
    name: "doctor",
    group: "Operating",
    parameters: "",
    summary: "Looks at the service, its nodes, workers, database and brokers",
    details: `The service is asked over the API. The database, Redis and RabbitMQ are looked at if DATABASE_URL, REDIS_URL and AMQP_URL are set here, as they are
for the service. The exit code is 1 if something is bad.`,
    asks: true,
    prints: true,
    load: async () => (await import("../operate/doctor.js")).doctor,
  },
  {
    name: "conformance",
    group: "Authoring",
    parameters: "[program...]",
    summary: "Tests a worker in any language against the worker protocol",
    details: `It plays the service on this machine, starts the program with SAGA_GRPC, SAGA_API and SAGA_TOKEN in its environment, and plays every case
of docs/protocol.md with it, for a minute. The worker has the actions that the page describes. The exit code is 1 if a case failed.`,
    options: [
      { flags: "--wait", says: "start no program: print the three, and wait for a worker that you start" },
      { flags: "--only <cases>", says: "play these cases only, by their names with commas" },
    ],
    examples: ["saga conformance -- python3 worker.py", "saga conformance --only result,undo -- ./worker"],
    prints: true,
    load: async () => (await import("../conformance.js")).conformance,
  },
  {
    name: "archive list",
    group: "Operating",
    parameters: "",
    summary: "Lists the files of the archive, the oldest first",
    details: "Retention writes them before it deletes runs. The command reads the folder, and needs no service.",
    options: [ARCHIVE, { flags: "--tenant <uuid>", says: "those with runs of this tenant" }],
    examples: ["saga archive list --dir /var/lib/saga/archive"],
    prints: true,
    load: async () => (await import("../operate/archive.js")).list,
  },
  {
    name: "archive show",
    group: "Operating",
    parameters: "<run>",
    summary: "Shows a run of the archive, as the API answered of it",
    details: `It reads all files, up to the last one, for the id. With -o json it prints the run as GET /api/v1/sagas/{id} did, with "archived": true beside it. The exit
code is 1 if there is no such run.`,
    options: [
      ARCHIVE,
      { flags: "--events", says: "its audit events, too" },
      { flags: "--all", says: "its events, signals, undo list and user tasks" },
    ],
    examples: ["saga archive show 0198f29d-51b6-7e3a-8c07-d2f94a1e6b85 --all -o json"],
    prints: true,
    load: async () => (await import("../operate/archive.js")).show,
  },
  {
    name: "archive verify",
    group: "Operating",
    parameters: "",
    summary: "Compares the files of the archive with their checksums, and finds those that are missing",
    details:
      "The exit code is 1 if one was changed, cut off or lost. What a crash has left unfinished is named, and is no fault.",
    options: [ARCHIVE],
    prints: true,
    load: async () => (await import("../operate/archive.js")).verify,
  },
  {
    name: "tenant keys",
    group: "Operating",
    parameters: "<tenant>",
    summary: "Shows how many data keys a tenant has, with encryption at rest",
    asks: true,
    prints: true,
    load: async () => (await import("../operate/tenant-keys.js")).show,
  },
  {
    name: "tenant destroy-keys",
    group: "Operating",
    parameters: "<tenant>",
    summary: "Destroys the data keys of a tenant: nothing of its sealed values can ever be read again",
    details: `Its unfinished runs end failed, with requires_manual_review; saga tenant keys says how many are left. What the tenant starts afterwards gets a fresh key.
Labels, business keys and other plain values stay: erase the runs where they must go, too. The token needs the role platform.`,
    options: [{ flags: "--confirm <uuid>", says: "the tenant once more, or nothing is done" }],
    examples: [
      "saga tenant destroy-keys 0198f29d-51b6-7e3a-8c07-d2f94a1e6b85 --confirm 0198f29d-51b6-7e3a-8c07-d2f94a1e6b85",
    ],
    asks: true,
    prints: true,
    load: async () => (await import("../operate/tenant-keys.js")).destroy,
  },
  {
    name: "mcp",
    group: "Operating",
    parameters: "",
    summary: "Serves the API as tools to an assistant, over standard input and output",
    details:
      "The Model Context Protocol. The tools only read, unless --allow-acts; they may do what the credential may.",
    options: [{ flags: "--allow-acts", says: "tools that start, signal, cancel and help runs, too" }],
    asks: true,
    load: async () => (await import("../mcp.js")).mcp,
  },
];
