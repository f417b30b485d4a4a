// The commands of authors.
import type { CommandEntry } from "../command.js";
import { JSON_WORDS, VERSION } from "./options.js";

const FILES = "JSON files, or TypeScript modules that export sagas";

export const AUTHORING: readonly CommandEntry[] = [
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
    load: async () => (await import("../dev/index.js")).dev,
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
    load: async () => (await import("../author/publish.js")).publish,
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
    load: async () => (await import("../author/publish.js")).diff,
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
    load: async () => (await import("../author/graph.js")).graph,
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
    load: async () => (await import("../author/convert.js")).convert,
  },
  {
    name: "import",
    group: "Authoring",
    parameters: "<files...>",
    summary: "Makes workflows of state machines of AWS Step Functions and of workflows of Conductor",
    details: `Takes JSON files: a state machine in the Amazon States Language, a workflow of Conductor, or a list of such workflows. The report names each part without an equivalent by its JSON pointer, with the reason and what stands
in its place. A workflow with such a part is written with --partial only. A note in the report is about a part that means the same and needs something more, such as a worker. The exit code is 0 if all workflows mean the same as before, else 1.
The command needs no service and publishes nothing.`,
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
    load: async () => (await import("../author/import.js")).importFiles,
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
    load: async () => (await import("../author/check.js")).check,
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
    load: async () => (await import("../author/test.js")).test,
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
    load: async () => (await import("../author/rule.js")).evaluate,
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
    load: async () => (await import("../author/types.js")).pull,
  },
];
