// The table of commands: names, options and words, from which help, completion and docs/cli.md are made. What a command does is loaded when it runs.
import type { CommandEntry } from "./command.js";
import type { OptionEntry } from "./frame/option.js";

const VERSION: OptionEntry = { flags: "--version <number>", says: "of this published version; default: the latest" };
const KEY: OptionEntry = {
  flags: "--key <key>",
  says: "an idempotency key: the same key again takes effect once; default: a random one",
};
const TIMEOUT: OptionEntry = {
  flags: "--timeout <time>",
  says: "how long to wait, such as 30s or 15m; default: for good",
};
const REASON: OptionEntry = { flags: "--reason <text>", says: "why: it stays in the audit log" };
const WAIT: OptionEntry = { flags: "-w, --wait", says: "wait for the end of the run" };
const LIMIT: OptionEntry = { flags: "--limit <number>", says: "the most that are listed; default 20" };
const LABEL: OptionEntry = { flags: "--label <name=value>", says: "a label; may be given several times", many: true };
const TENANT: OptionEntry = {
  flags: "--tenant <uuid>",
  says: "of this tenant; with access control that of the credential",
};

const ARCHIVE: OptionEntry = { flags: "--dir <folder>", says: "of the archive; default: SAGA_ARCHIVE_DIR" };

const JSON_WORDS = "JSON, @file, or - for standard input";

export const FILTERS: readonly OptionEntry[] = [
  { flags: "--workflow <id>", says: "of this workflow" },
  { flags: "--version <number>", says: "of this version" },
  {
    flags: "--state <state>",
    says: "in this state; may be given several times",
    choices: ["pending", "running", "paused", "compensating", "succeeded", "failed", "cancelled"],
    many: true,
  },
  { flags: "--paused-reason <reason>", says: "paused for this: signal, event, user_task, timer, incident, operator" },
  { flags: "--step <id>", says: "that stand at this step" },
  { flags: "--business-key <key>", says: "with this business key" },
  LABEL,
  { flags: "--error-code <code>", says: "that failed, or stand at an incident, with this code" },
  { flags: "--incident", says: "that stand at an incident" },
  { flags: "--since <time>", says: "started within this time, such as 30m or 7d" },
  { flags: "--roots", says: "without branches, items and sub-sagas" },
  { flags: "--parent <run>", says: "the children of this run" },
  { flags: "--bulk <id>", says: "that this bulk job has changed" },
  { flags: "--search <text>", says: "whose id or business key begins so" },
  TENANT,
];

const RUNS: readonly CommandEntry[] = [
  {
    name: "start",
    group: "Runs",
    parameters: "<workflow>",
    summary: "Starts a run, and prints its id",
    details: `With --wait it prints the run as it has ended, and its exit code is that of the run: 0 succeeded, 1 failed, 3 cancelled, 4 not ended within
--timeout. The run goes on if the command is interrupted.`,
    options: [
      { flags: "-i, --inputs <json>", says: `the inputs: ${JSON_WORDS}` },
      WAIT,
      { flags: "--watch", says: "show the run until it ends, as saga watch does" },
      TIMEOUT,
      KEY,
      { flags: "--business-key <key>", says: "a key to find the run by" },
      { flags: "--on-conflict <policy>", says: "while a run holds the business key: reject, return or cancel_old" },
      { flags: "--debounce <time>", says: "of the starts of the business key within this time, the last one is carried out" },
      { flags: "--debounce-max <time>", says: "how long a burst of starts may put it off" },
      { flags: "--signal <name>", says: "send this signal to the run that holds the business key, or to the one that is started" },
      { flags: "-p, --payload <json>", says: `of the signal: ${JSON_WORDS}; default {}` },
      LABEL,
      VERSION,
      { flags: "--entrypoint <name>", says: "where it begins; default: the start of the workflow" },
      { flags: "--variables <json>", says: "override the startup variables" },
      { flags: "--delay <time>", says: "it stays pending for this time" },
      { flags: "--run-timeout <time>", says: "overrides the timeout of the workflow" },
      { flags: "--dry-run", says: "a dry run" },
      TENANT,
    ],
    examples: [
      `saga start order --inputs '{"sku": "tea", "quantity": 2}' --wait`,
      "saga start order --inputs @order.json --key order-17",
      "jq .order message.json | saga start order --inputs - --watch",
      "saga start reindex --business-key shop-7 --debounce 5s --debounce-max 1m",
      `saga start cart --business-key cart-77 --signal item_added --payload '{"sku": "lamp"}'`,
    ],
    asks: true,
    prints: true,
    load: async () => (await import("./runs/start.js")).start,
  },
  {
    name: "get",
    group: "Runs",
    parameters: "<run>",
    summary: "Shows a run: where it stands, its values, its error",
    details: "With --wait the exit code is that of the run.",
    options: [WAIT, TIMEOUT],
    asks: true,
    prints: true,
    load: async () => (await import("./runs/start.js")).get,
  },
  {
    name: "list",
    group: "Runs",
    parameters: "",
    summary: "Lists runs, the newest first",
    options: [...FILTERS, LIMIT],
    examples: ["saga list --workflow order --state failed --since 1d", "saga list --incident -o json"],
    asks: true,
    prints: true,
    load: async () => (await import("./runs/list.js")).list,
  },
  {
    name: "watch",
    group: "Runs",
    parameters: "<run>",
    summary: "Follows a run until it ends: steps, branches, undo",
    details: `A tree that is drawn again as the run goes; in a pipe one line for each event, with -o json one JSON value a line and the run as the last one.
The exit code is that of the run. Ctrl-C ends the command with 130, and the run goes on. Up to 60 branches, items and sub-sagas are followed one by one.`,
    options: [TIMEOUT],
    asks: true,
    prints: true,
    load: async () => (await import("./runs/watch.js")).watch,
  },
  {
    name: "explain",
    group: "Runs",
    parameters: "<run>",
    summary: "Says why a run stands where it stands, and what you can do",
    asks: true,
    prints: true,
    load: async () => (await import("./runs/list.js")).explain,
  },
  {
    name: "query",
    group: "Runs",
    parameters: "<run> <expression>",
    summary: "Evaluates a CEL expression about a run, and prints its value",
    details: `The expression sees what the expressions of the run see now: inputs, vars, run, features, now, the names of its block, and output once the run has
succeeded. Nothing is changed. A text is printed as it is, every other value as JSON; -o json prints the whole answer.`,
    examples: [`saga query 0198f29d-51b6-7e3a-8c07-d2f94a1e6b85 'vars.lines.filter(l, !l.shipped).size()'`],
    asks: true,
    prints: true,
    load: async () => (await import("./runs/list.js")).query,
  },
  {
    name: "signal",
    group: "Runs",
    parameters: "<run> <name>",
    summary: "Sends a signal to a run",
    details: `A signal that the run does not await yet is recorded, and taken when it does: that is a success, too.
With --wait it prints the run when it waits again or has ended: the exit code is that of a run that has ended, and 4 if neither came within --timeout.`,
    options: [
      { flags: "-p, --payload <json>", says: `the payload: ${JSON_WORDS}; default {}` },
      { flags: "-w, --wait", says: "wait until the run that has taken it waits again, or has ended" },
      { flags: "--timeout <time>", says: "how long to wait, up to 60s; default 50s" },
      KEY,
    ],
    examples: [
      `saga signal 0198f29d-51b6-7e3a-8c07-d2f94a1e6b85 confirmed --payload '{"by": "ann"}'`,
      "saga signal 0198f29d-51b6-7e3a-8c07-d2f94a1e6b85 confirmed --wait",
    ],
    asks: true,
    prints: true,
    load: async () => (await import("./runs/start.js")).signal,
  },
  {
    name: "rerun",
    group: "Runs",
    parameters: "<run>",
    summary: "Starts a run that has ended again, and prints the id of the new one",
    options: [{ flags: "-i, --inputs <json>", says: `other inputs: ${JSON_WORDS}` }, VERSION, LABEL, KEY],
    asks: true,
    prints: true,
    load: async () => (await import("./runs/acts.js")).rerun,
  },
];

type ActName = "cancel" | "pause" | "resume" | "retry" | "skip" | "fail" | "terminate" | "release";

const actEntry = (name: ActName, summary: string, options: readonly OptionEntry[], details?: string): CommandEntry => ({
  ...{ name, group: "Acts", parameters: "<run>", summary, options: [...options, KEY, WAIT, TIMEOUT] },
  ...(details !== undefined && { details }),
  ...{ asks: true, prints: true },
  load: async () => (await import("./runs/acts.js"))[name],
});

const ACTS: readonly CommandEntry[] = [
  actEntry(
    "cancel",
    "Cancels a run: it undoes its steps, then it is cancelled",
    [REASON, { flags: "--without-undo", says: "leave what it has done as it is" }],
    "With --without-undo the step in flight stays on the undo list: it may have happened.",
  ),
  actEntry("pause", "Holds a run where it is", [REASON]),
  actEntry("resume", "Lets a held run go on", [REASON]),
  actEntry(
    "retry",
    "Tries the step, or the undo, of an incident again",
    [{ flags: "--variables <json>", says: `variables to correct first: ${JSON_WORDS}` }],
    "Also ends the pause before the next attempt of a step.",
  ),
  actEntry(
    "skip",
    "Passes over the step, or the undo, of an incident",
    [{ flags: "--step-output <json>", says: `what the step shall have given: ${JSON_WORDS}; default null` }],
    "A step counts as succeeded. An undo counts as failed, and the run needs a review.",
  ),
  actEntry("fail", "Lets the error of an incident take its course", [REASON]),
  actEntry(
    "terminate",
    "Ends a run at once, without undoing anything",
    [REASON],
    "What it still owes is abandoned, and listed for a review. --reason is needed.",
  ),
  actEntry("release", "Releases a run from quarantine", []),
];

const PEOPLE: readonly CommandEntry[] = [
  {
    name: "tasks",
    group: "People",
    parameters: "",
    summary: "Lists what waits for a person, the longest open first",
    options: [
      { flags: "--assignee <name>", says: "of this person or group" },
      { flags: "--run <run>", says: "of this run" },
      { flags: "--status <status>", says: "default open", choices: ["open", "submitted", "expired"] },
      LIMIT,
    ],
    asks: true,
    prints: true,
    load: async () => (await import("./runs/tasks.js")).tasks,
  },
  {
    name: "submit",
    group: "People",
    parameters: "<run> <task>",
    summary: "Answers a task. This cannot be undone",
    options: [
      { flags: "--approve", says: 'the result {"approved": true}' },
      { flags: "--reject", says: 'the result {"approved": false}' },
      { flags: "-r, --result <json>", says: `another result: ${JSON_WORDS}` },
      { flags: "--by <name>", says: "who has decided; with access control it is the credential" },
    ],
    asks: true,
    prints: true,
    load: async () => (await import("./runs/tasks.js")).submit,
  },
];

const FILES = "JSON files, or TypeScript modules that export sagas";

const AUTHORING: readonly CommandEntry[] = [
  {
    name: "dev",
    group: "Authoring",
    parameters: "",
    summary: "Runs the service, the definitions and the worker of this folder, again when they change",
    details: `It publishes the definitions and triggers in workflows/ (JSON, or modules that export them) and runs worker.ts or worker.js; saga.config.json may name others:
{ "definitions": ["workflows/**"], "worker": "worker.ts" }. The worker gets SAGA_API, SAGA_URL and SAGA_GRPC.
Data is in .saga of the folder, with an embedded Postgres unless DATABASE_URL is set. Ports: HTTP_PORT and GRPC_PORT, or 8080 and 9090, or
the next free ones. Ctrl-C stops everything, a second one hurries. With -o json each line is as the service and the worker write it.`,
    endsItself: true,
    prints: true,
    load: async () => (await import("./dev/index.js")).dev,
  },
  {
    name: "publish",
    group: "Authoring",
    parameters: "<files...>",
    summary: "Publishes workflows and rules: a version is never changed again",
    details: `Takes ${FILES}. All of them are checked before the first one is stored. What is published already with the same content
stays as it is. A trigger among them is left out: saga trigger create makes one. A module runs with your rights while it is loaded.`,
    options: [
      { flags: "--draft", says: "store without publishing" },
      { flags: "--dry-run", says: "check only, store nothing" },
    ],
    examples: ["saga publish order.workflow.json", "saga publish workflows/*.ts --dry-run"],
    asks: true,
    prints: true,
    load: async () => (await import("./author/publish.js")).publish,
  },
  {
    name: "diff",
    group: "Authoring",
    parameters: "<files...>",
    summary: "Compares files with what is published",
    details: "The exit code is 1 if there is a difference, 0 if there is none. The order of members does not count.",
    options: [VERSION],
    asks: true,
    prints: true,
    load: async () => (await import("./author/publish.js")).diff,
  },
  {
    name: "graph",
    group: "Authoring",
    parameters: "<file-or-id>",
    summary: "Prints the chart of a workflow as a Mermaid state diagram",
    details: "A file needs no service.",
    options: [VERSION],
    examples: ["saga graph order.workflow.json > order.mmd", "saga graph order --version 3"],
    asks: true,
    prints: true,
    load: async () => (await import("./author/graph.js")).graph,
  },
  {
    name: "convert",
    group: "Authoring",
    parameters: "<file-or-id>",
    summary: "Prints a JSON workflow as a TypeScript module that writes it with define",
    details: `The module serialises to the same document, but for the order of members and steps. Contracts of actions have schemas that take anything: put in
yours, or those of saga types pull. A graph that is no nesting of blocks stays a document in the module, which says why. A file needs no service.`,
    options: [{ flags: "--out <file>", says: "where to; default: standard output" }, VERSION],
    examples: ["saga convert order.workflow.json --out order.ts", "saga convert order --version 3"],
    asks: true,
    load: async () => (await import("./author/convert.js")).convert,
  },
  {
    name: "import",
    group: "Authoring",
    parameters: "<files...>",
    summary: "Makes workflows of state machines of AWS Step Functions and of workflows of Conductor",
    details: `Takes JSON files: a state machine in the Amazon States Language, a workflow of Conductor, or a list of those. What has no equivalent is
reported with its JSON pointer, the reason, and what stands in its place; such a workflow is written with --partial only. A note is about
something that keeps its meaning and needs something outside of the document, such as a worker. The exit code is 1 unless all workflows mean the same as
before. It asks no service, and publishes nothing.`,
    options: [
      {
        flags: "--from <dialect>",
        says: "what the files are; default: seen from their content",
        choices: ["asl", "conductor"],
      },
      { flags: "--id <id>", says: "of the workflow; default: its name, or that of the file" },
      { flags: "--out <folder>", says: "where to, one file for each workflow; default: standard output" },
      { flags: "--report <file>", says: "write the report there, as JSON; default: lines on standard error" },
      { flags: "--partial", says: "also write what does not mean the same" },
    ],
    examples: [
      "saga import order.asl.json > order.workflow.json",
      "saga import conductor/*.json --out workflows --report report.json",
    ],
    load: async () => (await import("./author/import.js")).importFiles,
  },
  {
    name: "check",
    group: "Authoring",
    parameters: "<files...>",
    summary: "Says what is likely to be wrong in definitions, with the step's path and a code",
    details: `JSON files, or modules that export sagas. The files know each other; nothing is said of workflows that are in none of them. The exit code is 1 if
there is an error.`,
    options: [
      { flags: "--registry", says: "compare with the actions that are registered with the service" },
      { flags: "--strict", says: "a warning counts as an error" },
    ],
    examples: ["saga check workflows/*.json", "saga check order.ts --registry --strict"],
    asks: true,
    prints: true,
    load: async () => (await import("./author/check.js")).check,
  },
  {
    name: "test",
    group: "Authoring",
    parameters: "[files...]",
    summary: "Rehearses workflows with mocks, on a virtual clock and without a service",
    details: `Without files it takes all *.saga-test.json here and below. With --from-run it makes such a file of a run that has ended: its inputs, mocks
of everything that answered it, and its end. What the audit log does not have is said.`,
    options: [
      { flags: "--watch", says: "again at every change of a file" },
      { flags: "--from-run <run>", says: "make a test of this run" },
      { flags: "--out <file>", says: "where --from-run writes to; default: standard output" },
    ],
    examples: ["saga test", "saga test --from-run 0198f29d-51b6-7e3a-8c07-d2f94a1e6b85 --out order.saga-test.json"],
    asks: true,
    prints: true,
    load: async () => (await import("./author/test.js")).test,
  },
  {
    name: "rule eval",
    group: "Authoring",
    parameters: "<file-or-id>",
    summary: "Evaluates a rule",
    details: "A file needs no service.",
    options: [{ flags: "-i, --inputs <json>", says: `what its conditions see: ${JSON_WORDS}; default {}` }, VERSION],
    examples: [`saga rule eval shipping --inputs '{"weight": 31}'`],
    asks: true,
    prints: true,
    load: async () => (await import("./author/rule.js")).evaluate,
  },
  {
    name: "types pull",
    group: "Authoring",
    parameters: "",
    summary: "Writes the registered actions as TypeScript contracts",
    options: [
      { flags: "--service <name>", says: "of this service alone" },
      { flags: "--out <file>", says: "where to; default: standard output" },
    ],
    examples: ["saga types pull --out actions.ts"],
    asks: true,
    prints: true,
    load: async () => (await import("./author/types.js")).pull,
  },
];

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
  load: async () => (await import("./operate/triggers.js"))[name],
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
    load: async () => (await import("./operate/triggers.js")).list,
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
    load: async () => (await import("./operate/triggers.js")).create,
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
    load: async () => (await import("./operate/triggers.js")).remove,
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
  load: async () => (await import("./operate/bulk.js"))[name],
});

const OPERATING: readonly CommandEntry[] = [
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
    load: async () => (await import("./operate/workers.js")).workers,
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
    load: async () => (await import("./operate/bulk.js")).bulk,
  },
  {
    name: "bulk list",
    group: "Operating",
    parameters: "",
    summary: "Lists bulk jobs, the newest first",
    options: [LIMIT],
    asks: true,
    prints: true,
    load: async () => (await import("./operate/bulk.js")).list,
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
    load: async () => (await import("./operate/bulk.js")).migrateRun,
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
    load: async () => (await import("./operate/bulk.js")).migrateAll,
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
    load: async () => (await import("./bench/index.js")).bench,
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
    load: async () => (await import("./operate/doctor.js")).doctor,
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
    load: async () => (await import("./conformance.js")).conformance,
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
    load: async () => (await import("./operate/archive.js")).list,
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
    load: async () => (await import("./operate/archive.js")).show,
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
    load: async () => (await import("./operate/archive.js")).verify,
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
    load: async () => (await import("./mcp.js")).mcp,
  },
];

const OF_THE_COMMAND: readonly CommandEntry[] = [
  {
    name: "profile set",
    group: "This command",
    parameters: "<name>",
    summary: "Stores a service under a name; its token is asked for",
    details: `The token is read from standard input, or typed without an echo. The file is ~/.config/saga/config.json, or below XDG_CONFIG_HOME, for its owner
alone.`,
    options: [
      { flags: "--url <url>", says: "the address of the service" },
      { flags: "--without-token", says: "it needs none: ask for none" },
    ],
    examples: ["saga profile set prod --url https://saga.example.com < token"],
    load: async () => (await import("./operate/profile.js")).set,
  },
  {
    name: "profile use",
    group: "This command",
    parameters: "<name>",
    summary: "Makes a profile the current one",
    load: async () => (await import("./operate/profile.js")).use,
  },
  {
    name: "profile list",
    group: "This command",
    parameters: "",
    summary: "Lists the profiles, without their tokens",
    prints: true,
    load: async () => (await import("./operate/profile.js")).list,
  },
  {
    name: "profile remove",
    group: "This command",
    parameters: "<name>",
    summary: "Removes a profile",
    load: async () => (await import("./operate/profile.js")).remove,
  },
  {
    name: "completion",
    group: "This command",
    parameters: "<shell>",
    summary: "Prints a script that completes commands and options, for bash, zsh or fish",
    examples: ["source <(saga completion bash)"],
    load: async () => (await import("./frame/completion.js")).completion,
  },
];

/** In the order of the help. */
export const TABLE: readonly CommandEntry[] = [
  ...RUNS,
  ...ACTS,
  ...PEOPLE,
  ...AUTHORING,
  ...OPERATING,
  ...OF_THE_COMMAND,
];
