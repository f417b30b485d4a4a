// The table of commands: names, options and words, from which help, completion and docs/cli.md are made. What a command does is loaded when it runs.
import type { CommandEntry } from "./command.js";
import { AUTHORING } from "./table/authoring.js";
import { OPERATING } from "./table/operating.js";
import { ACTS, PEOPLE, RUNS } from "./table/runs.js";

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
