// The commands about runs and their tasks.
import type { CommandEntry } from "../command.js";
import type { OptionEntry } from "../frame/option.js";
import { FILTERS, JSON_WORDS, KEY, LABEL, LIMIT, REASON, TENANT, TIMEOUT, VERSION, WAIT } from "./options.js";

export const RUNS: readonly CommandEntry[] = [
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
      {
        flags: "--debounce <time>",
        says: "of the starts of the business key within this time, the last one is carried out",
      },
      { flags: "--debounce-max <time>", says: "how long a burst of starts may put it off" },
      {
        flags: "--signal <name>",
        says: "send this signal to the run that holds the business key, or to the one that is started",
      },
      { flags: "-p, --payload <json>", says: `of the signal: ${JSON_WORDS}; default {}` },
      LABEL,
      VERSION,
      { flags: "--entrypoint <name>", says: "where it begins; default: the start of the workflow" },
      { flags: "--variables <json>", says: "override the startup variables" },
      { flags: "--priority <number>", says: "1 (the highest) to 5: whose turn it is where several wait; default 3" },
      { flags: "--fairness-key <key>", says: "the keys of a priority share by their weights what their runs wait for" },
      { flags: "--fairness-weight <number>", says: "of the fairness key, 0.001 to 1000; default 1" },
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
    load: async () => (await import("../runs/start.js")).start,
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
    load: async () => (await import("../runs/start.js")).get,
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
    load: async () => (await import("../runs/list.js")).list,
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
    load: async () => (await import("../runs/watch.js")).watch,
  },
  {
    name: "explain",
    group: "Runs",
    parameters: "<run>",
    summary: "Says why a run stands where it stands, and what you can do",
    asks: true,
    prints: true,
    load: async () => (await import("../runs/list.js")).explain,
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
    load: async () => (await import("../runs/list.js")).query,
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
    load: async () => (await import("../runs/start.js")).signal,
  },
  {
    name: "rerun",
    group: "Runs",
    parameters: "<run>",
    summary: "Starts a run that has ended again, and prints the id of the new one",
    options: [{ flags: "-i, --inputs <json>", says: `other inputs: ${JSON_WORDS}` }, VERSION, LABEL, KEY],
    asks: true,
    prints: true,
    load: async () => (await import("../runs/acts.js")).rerun,
  },
  {
    name: "fork",
    group: "Runs",
    parameters: "<run> <step>",
    summary: "Starts a run that begins at a step of another one, and prints its id; a run that waits ends with it",
    options: [
      { flags: "-e, --entry <n>", says: "which entry of the step, from 1; the last one if absent" },
      { flags: "--variables <json>", says: `all variables that it begins with: ${JSON_WORDS}` },
      { flags: "-i, --inputs <json>", says: `other inputs: ${JSON_WORDS}` },
      VERSION,
      {
        flags: "--assume-effects",
        says: "let the fork inherit no undo: you know that what was done before the step stands, or does not matter",
      },
      KEY,
    ],
    asks: true,
    prints: true,
    load: async () => (await import("../runs/acts.js")).fork,
  },
];

type ActName = "cancel" | "pause" | "resume" | "retry" | "skip" | "fail" | "terminate" | "release";

const actEntry = (name: ActName, summary: string, options: readonly OptionEntry[], details?: string): CommandEntry => ({
  ...{ name, group: "Acts", parameters: "<run>", summary, options: [...options, KEY, WAIT, TIMEOUT] },
  ...(details !== undefined && { details }),
  ...{ asks: true, prints: true },
  load: async () => (await import("../runs/acts.js"))[name],
});

export const ACTS: readonly CommandEntry[] = [
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

export const PEOPLE: readonly CommandEntry[] = [
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
    load: async () => (await import("../runs/tasks.js")).tasks,
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
    load: async () => (await import("../runs/tasks.js")).submit,
  },
];
