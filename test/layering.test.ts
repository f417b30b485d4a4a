// The layers of the design, read from the imports, type imports included: an upward import fails, a sideways one must be listed here,
// and there is no import cycle.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "..");

/** The rooms and files of `src` by layer. A new room needs a layer. */
const LAYERS: Readonly<Record<string, number>> = {
  ambient: 1,
  archive: 1,
  config: 1,
  errors: 1,
  clock: 1,
  ids: 1,
  log: 1,
  "log-output": 1,
  "json-text": 1,
  metrics: 1,
  work: 1,
  store: 2,
  bus: 2,
  egress: 2,
  tracing: 2,
  access: 3,
  catalog: 3,
  tenants: 3,
  concurrency: 3,
  events: 3,
  shard: 3,
  run: 4,
  trial: 5,
  api: 5,
  feed: 5,
  dispatch: 5,
  trigger: 5,
  operate: 5,
  inspect: 5,
  console: 5,
  conformance: 5,
  cluster: 6,
  cli: 6,
  main: 6,
};

/** The folders of `machines` by layer. */
const MACHINE_LAYERS: Readonly<Record<string, number>> = {
  values: 1,
  schema: 2,
  state: 2,
  explain: 3,
  expression: 3,
  attribute: 4,
  rule: 5,
  trigger: 5,
  writes: 7,
  messages: 6,
  steps: 7,
  chart: 8,
  definition: 9,
  decide: 9,
  migrate: 9,
  memory: 9,
  rehearsal: 10,
  check: 10,
  import: 10,
  index: 11,
};

/** Imports within a layer of `src`, each with its reason. */
const SIDEWAYS: readonly string[] = [
  "api -> dispatch", // the types of what nodes know of workers
  "api -> trigger", // the routes of triggers ask their registrar, and read schedules
  "api -> operate", // the routes of reruns and bulk jobs hand over what they have checked
  "api -> inspect", // the inspection's route hands its socket to an inspection
  "console -> api", // the types of what the API answers, and none of its code
  "api -> feed", // the run stream's route hands its socket to the feed
  "main -> cluster", // the composition root starts the primary or the node
];

/** Inner files of `machines` that pages import: its door would bring CEL and XState into the browser. */
const IN_BROWSERS: readonly string[] = [
  "machines/attribute/mention.ts",
  "machines/chart/graph.ts",
  "machines/chart/trace.ts",
  "machines/schema/check.ts",
  "machines/schema/schemas.ts",
  "machines/values/json.ts",
  "machines/values/json-path.ts",
  "machines/values/time.ts",
];

/** What the configuration and the command import, for the same reason: a primary and most commands run none of it. */
const SUGGESTION = "machines/attribute/suggestion.ts";
const SUGGESTING = ["config", "cli"];

/** The packages that `machines` may import. re2js: `matches` in linear time. */
const PURE_PACKAGES = /^(xstate|re2js|@bufbuild\/(cel|protobuf)(\/.*)?)$/;

interface Arrow {
  readonly from: string;
  readonly to: string;
}

const sources = (folder: string): string[] =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name).split(sep).join("/"))
    .filter((path) => /\.tsx?$/.test(path))
    .sort();

const IMPORT =
  /(?:^|[\s;}])(?:import|export)\s[^"';]*?from\s*["']([^"']+)["']|(?:^|[\s;(<,|&])import\s*\(?\s*["']([^"']+)["']/gm;

/** A relative import becomes a path from the root, with .ts; a package stays as it is. */
function arrows(files: readonly string[], read = (path: string) => readFileSync(join(ROOT, path), "utf8")): Arrow[] {
  return files.flatMap((from) =>
    [...read(from).matchAll(IMPORT)].map(([, fromClause, bare]) => {
      const target = fromClause ?? bare ?? "";
      if (!target.startsWith(".")) return { from, to: target };
      const path = relative(ROOT, resolve(ROOT, dirname(from), target))
        .split(sep)
        .join("/");
      return { from, to: path.replace(/\.js$/, ".ts") };
    }),
  );
}

const room = (path: string) => path.split("/")[1]?.replace(/\.ts$/, "") ?? "";
const show = ({ from, to }: Arrow) => `${from} -> ${to}`;

function wrongInMachines(found: readonly Arrow[]): string[] {
  return found
    .filter(({ from, to }) => {
      if (!to.startsWith("machines/")) return !PURE_PACKAGES.test(to);
      if (room(from) === room(to)) return false;
      const [above, below] = [MACHINE_LAYERS[room(from)], MACHINE_LAYERS[room(to)]];
      return above === undefined || below === undefined || above <= below;
    })
    .map(show);
}

/** What the service and its workers share, in the SDK: users get it without the service. */
const SHARED_WITH_SDK = ["src/sdk/protocol/", "src/sdk/broker/", "src/sdk/backoff.ts", "src/sdk/timer.ts"];

/** What the command uses as any program of a user does: the client, the rehearsals of `saga test`, the worker of `saga bench`, and what prints a definition. */
const USED_BY_COMMAND = ["src/sdk/client/", "src/sdk/define/testing/", "src/sdk/define/index.ts", "src/sdk/worker/"];

function wrongInShell(found: readonly Arrow[]): string[] {
  return found
    .filter(({ from, to }) => {
      if (to.startsWith("machines/") && room(from) === "console" && IN_BROWSERS.includes(to)) return false;
      if (SUGGESTING.includes(room(from)) && to === SUGGESTION) return false;
      if (to.startsWith("machines/")) return to !== "machines/index.ts";
      if (!to.startsWith("src/")) return /^(test|bench|examples)\//.test(to) || to.startsWith("../");
      if (room(from) === "cli" && USED_BY_COMMAND.some((folder) => to.startsWith(folder))) return false;
      if (to.startsWith("src/sdk/")) return !SHARED_WITH_SDK.some((folder) => to.startsWith(folder));
      if (room(from) === room(to)) return false;
      const [above, below] = [LAYERS[room(from)], LAYERS[room(to)]];
      if (above === undefined || below === undefined) return true;
      return above === below ? above !== 1 && !SIDEWAYS.includes(`${room(from)} -> ${room(to)}`) : above < below;
    })
    .map(show);
}

/** The imports of `sdk/define/testing`: the machine itself, and the inner files whose types users see, so that declarations name no more. */
const REHEARSED_WITH = [
  "machines/index.ts",
  "machines/check/finding.ts",
  "machines/rehearsal/mock.ts",
  "machines/rehearsal/rehearsed.ts",
  "machines/values/json.ts",
  "machines/values/retry.ts",
];

/** The SDK is shipped to users: it may import the worker protocol only. */
function wrongInSdk(found: readonly Arrow[]): string[] {
  return found
    .filter(({ to }) => /^(src|machines|test|bench|examples)\//.test(to) && !to.startsWith("src/sdk/"))
    .filter(({ from, to }) => !(from.startsWith("src/sdk/define/testing/") && REHEARSED_WITH.includes(to)))
    .map(show);
}

/** What the client may import beside its own room: it depends on no package and on no runtime. */
const CONTRACT = "src/sdk/contract/";

function wrongInClient(found: readonly Arrow[]): string[] {
  return found.filter(({ to }) => !to.startsWith("src/sdk/client/") && !to.startsWith(CONTRACT)).map(show);
}

/** Comments may mention the clock. */
const withoutComments = (text: string) => text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "");

function impurities(text: string): string[] {
  return withoutComments(text).match(/Date\.now|new Date\(\s*\)|Math\.random|performance\.now|\bcrypto\b/g) ?? [];
}

/** What is not the code of a node, and has the clocks, timers and random numbers of its host. */
const NO_NODE: readonly string[] = [
  "src/ambient.ts", // the ports themselves
  "src/cli/", // the command
  "src/conformance/", // a program for those who write a worker in another language
  "src/console/", // pages, in browsers
  "src/inspect/page.ts", // the text of a page
  "src/main.ts", // the last moments of a process
  "src/log-output.ts", // its pipe, which it must empty before it ends
  "src/store/embedded/", // a Postgres that is a process of its own
  "src/cluster/forked-node.ts", // a process, and the one that watches it
  "src/cluster/node-process.ts",
  "src/cluster/supervisor.ts",
  "src/trial/trial-process.ts", // the sacrificial process
  "src/trial/entry.ts",
];

const AMBIENT_IMPORT = /import \{([^}]*)\} from "[./]*\/ambient\.js";/;
const AMBIENT_NAMES =
  /(?<![\w."])(?:setTimeout|setInterval|setImmediate|clearTimeout|clearInterval|performance(?=\.now)|randomUUID|randomBytes|randomInt)\b/g;
const HOSTS_OWN =
  /Date\.now|new Date\(\s*\)|Math\.random|AbortSignal\.timeout|process\.hrtime|getRandomValues|timers\/promises|randomFillSync|globalThis/g;

/** What a file of a node takes from its host, past the ports of src/ambient.ts. */
function pastAmbient(text: string): string[] {
  const code = withoutComments(text);
  const imported = new Set((AMBIENT_IMPORT.exec(code)?.[1] ?? "").split(",").map((name) => name.trim()));
  const used = (code.replace(AMBIENT_IMPORT, "").match(AMBIENT_NAMES) ?? []).filter((name) => !imported.has(name));
  return [...used, ...(code.match(HOSTS_OWN) ?? [])];
}

const isSdk = (path: string) => path.startsWith("src/sdk/");
const machines = sources("machines");
const shell = sources("src").filter((path) => !isSdk(path));
const sdk = sources("src").filter(isSdk);

describe("layers", () => {
  it("machines imports xstate, CEL and lower layers of itself", () => {
    expect(machines.length).toBeGreaterThan(0);
    expect(wrongInMachines(arrows(machines))).toEqual([]);
  });

  it("machines reads no clock and no randomness", () => {
    const found = machines.flatMap((path) =>
      impurities(readFileSync(join(ROOT, path), "utf8")).map((text) => `${path}: ${text}`),
    );
    expect(found).toEqual([]);
  });

  it("every room of src has a layer", () => {
    expect([...new Set(shell.map(room))].filter((name) => LAYERS[name] === undefined)).toEqual([]);
  });

  it("src points downward, into machines by its door only, and into the SDK for what both share only", () => {
    expect(wrongInShell(arrows(shell))).toEqual([]);
  });

  it("the SDK imports nothing of the service but the worker protocol", () => {
    expect(wrongInSdk(arrows(sdk))).toEqual([]);
  });

  it("the client imports contracts only, and no package", () => {
    const client = arrows(sdk.filter((path) => path.startsWith("src/sdk/client/")));
    expect(client.length).toBeGreaterThan(0);
    expect(wrongInClient(client)).toEqual([]);
    // What it has of them itself depends on no package either.
    const reached = [...new Set(client.map(({ to }) => to).filter((path) => path.startsWith(CONTRACT)))];
    expect(arrows(reached).filter(({ to }) => !to.startsWith(CONTRACT))).toEqual([]);
  });

  it("what takes long to load is loaded only where it is used", () => {
    const atOnce = (path: string) => readFileSync(join(ROOT, path), "utf8").replace(/import( type [^;]*|\(.*);/g, "");
    const found = arrows(shell, atOnce);
    const ofMain = found.filter(({ from }) => from === "src/main.ts").map(({ to }) => to);
    expect(ofMain).toEqual(["node:cluster", "src/config/index.ts", "src/log.ts"]);
  });

  // Of TypeBox the bundle then has only the builders that are used, and loading them is not measurable. With `import { Type }` it has
  // all of it, which costs each process 35 to 60 ms of CPU time at its start.
  it("TypeBox's builders are imported as a namespace", () => {
    const other = /import (?!type )(?!\* as Type )[^;]*from "typebox"/;
    expect(shell.filter((path) => other.test(readFileSync(join(ROOT, path), "utf8")))).toEqual([]);
  });

  it("the code of a node has its clocks, timers and random numbers of src/ambient.ts", () => {
    const files = shell.filter((path) => !NO_NODE.some((prefix) => path.startsWith(prefix)));
    expect(files.length).toBeGreaterThan(200);
    const found = files.flatMap((path) =>
      pastAmbient(readFileSync(join(ROOT, path), "utf8")).map((name) => `${path}: ${name}`),
    );
    expect(found).toEqual([]);
  });

  it("process.env is read in config only", () => {
    const readers = shell.filter((path) =>
      /process\.env/.test(withoutComments(readFileSync(join(ROOT, path), "utf8"))),
    );
    expect(readers.filter((path) => !path.startsWith("src/config/"))).toEqual([]);
  });
});

describe("a planted violation is found:", () => {
  const found = (from: string, text: string) => arrows([from], () => text);

  it.each([
    ["an upward arrow", wrongInShell, "src/store/x.ts", 'import type { A } from "../run/ports.js";'],
    ["a multi-line one", wrongInShell, "src/store/x.ts", 'import {\n  type A,\n  b,\n} from "../api/x.js";'],
    ["an unlisted sideways one", wrongInShell, "src/store/x.ts", 'import { A } from "../bus/x.js";'],
    ["a re-export", wrongInShell, "src/errors.ts", 'export * from "./store/x.js";'],
    ["a dynamic import", wrongInShell, "src/errors.ts", 'const a = await import("./store/x.js");'],
    ["a bare import", wrongInShell, "src/errors.ts", 'import "./main.js";'],
    ["an inner file of machines", wrongInShell, "src/run/x.ts", 'import { A } from "../../machines/decide/decide.js";'],
    ["a test", wrongInShell, "src/run/x.ts", 'import { A } from "../../test/harness/until.js";'],
    ["the SDK's code in the shell", wrongInShell, "src/dispatch/x.ts", 'import { A } from "../sdk/worker/index.js";'],
    ["a room without a layer", wrongInShell, "src/run/x.ts", 'import { A } from "../utils/x.js";'],
    [
      "an upward one in machines",
      wrongInMachines,
      "machines/steps/x.ts",
      'import type { A } from "../decide/token.js";',
    ],
    [
      "a type upward in machines",
      wrongInMachines,
      "machines/state/x.ts",
      'type A = import("../steps/step.js").StepOutcome;',
    ],
    [
      "a sideways one in machines",
      wrongInMachines,
      "machines/decide/x.ts",
      'import { A } from "../definition/layout.js";',
    ],
    ["a new folder in machines", wrongInMachines, "machines/decide/x.ts", 'import { A } from "../utils/x.js";'],
    ["node in machines", wrongInMachines, "machines/x.ts", 'import { A } from "node:fs";'],
    ["the shell in machines", wrongInMachines, "machines/x.ts", 'import { A } from "../src/errors.js";'],
    [
      "the machine in the worker SDK",
      wrongInSdk,
      "src/sdk/worker/x.ts",
      'import { A } from "../../../machines/index.js";',
    ],
    [
      "the shell in a rehearsal",
      wrongInSdk,
      "src/sdk/define/testing/x.ts",
      'import { A } from "../../../run/runtime.js";',
    ],
    ["the shell in the SDK", wrongInSdk, "src/sdk/worker/x.ts", 'import { A } from "../../log.js";'],
    ["Node in the client", wrongInClient, "src/sdk/client/x.ts", 'import { A } from "node:crypto";'],
    ["the worker in the client", wrongInClient, "src/sdk/client/x.ts", 'import type { A } from "../worker/index.js";'],
  ])("%s", (_name, wrong, from, text) => {
    expect(wrong(found(from, text))).toHaveLength(1);
  });

  it.each([
    "setTimeout(go, 5)",
    "new Promise(setImmediate)",
    "performance.now()",
    "Date.now()",
    "randomUUID()",
    'import { scheduler } from "node:timers/promises"',
    "AbortSignal.timeout(5)",
  ])("%s in a node", (text) => {
    expect(pastAmbient(`// fine: ${text}\nconst a = ${text};`)).toHaveLength(1);
    const imports = 'import { performance, randomUUID, setImmediate, setTimeout } from "../ambient.js";';
    const isPort = /^(?:setT|new P|perf|randomU)/.test(text);
    expect(pastAmbient(`${imports}\nconst a = ${text};`)).toHaveLength(isPort ? 0 : 1);
  });

  it.each(["Date.now()", "new Date()", "Math.random()"])("%s", (text) => {
    expect(impurities(`// fine: ${text}\nconst a = ${text};`)).toHaveLength(1);
  });
});
