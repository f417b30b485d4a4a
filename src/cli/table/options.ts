// Options that several commands have.
import type { OptionEntry } from "../frame/option.js";

export const VERSION: OptionEntry = {
  flags: "--version <number>",
  says: "of this published version; default: the latest",
};
export const KEY: OptionEntry = {
  flags: "--key <key>",
  says: "an idempotency key: the same key again takes effect once; default: a random one",
};
export const TIMEOUT: OptionEntry = {
  flags: "--timeout <time>",
  says: "how long to wait, such as 30s or 15m; default: for good",
};
export const REASON: OptionEntry = { flags: "--reason <text>", says: "why: it stays in the audit log" };
export const WAIT: OptionEntry = { flags: "-w, --wait", says: "wait for the end of the run" };
export const LIMIT: OptionEntry = { flags: "--limit <number>", says: "the most that are listed; default 20" };
export const LABEL: OptionEntry = {
  flags: "--label <name=value>",
  says: "a label; may be given several times",
  many: true,
};
export const TENANT: OptionEntry = {
  flags: "--tenant <uuid>",
  says: "of this tenant; with access control that of the credential",
};

export const ARCHIVE: OptionEntry = { flags: "--dir <folder>", says: "of the archive; default: SAGA_ARCHIVE_DIR" };

export const JSON_WORDS = "JSON, @file, or - for standard input";

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
  { flags: "--forked-from <run>", says: "the forks of this run" },
  { flags: "--search <text>", says: "whose id or business key begins so" },
  TENANT,
];
