// The workers in other languages among the examples: they keep the protocol in every case, and execute and undo the steps of a saga on a real
// service. They are built here, with Debian's packages.
// @module-tag long
// @waits
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Saga } from "../../examples/client.js";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { packageRoot } from "../../src/config/package.js";
import { runConformance } from "../../src/conformance/index.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";

const ROOT = packageRoot();
const EXAMPLES = join(ROOT, "examples", "workers");
/** Not the first in the PATH, which may be one of another installation: Debian's packages are for Debian's. */
const PYTHON = "/usr/bin/python3";

interface Language {
  readonly name: string;
  readonly needs: string;
  readonly isHere: boolean;
  /** Builds into the folder, and returns the program and what it finds in its environment. */
  build(folder: string): { command: readonly [string, ...string[]]; env: Readonly<Record<string, string>> };
}

function works(program: string, ...args: string[]): boolean {
  try {
    execFileSync(program, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

const hasJar = (name: string) => existsSync(`/usr/share/java/${name}.jar`);
const hasProtoc = works("protoc", "--version");

const LANGUAGES: readonly Language[] = [
  {
    name: "Python",
    needs: "python3-grpcio, python3-protobuf and protobuf-compiler",
    isHere: hasProtoc && works(PYTHON, "-c", "import grpc, google.protobuf"),
    build(folder) {
      execFileSync("protoc", ["-I", join(ROOT, "src", "dispatch"), `--python_out=${folder}`, "worker.proto"]);
      const env = { PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: "1" };
      return { command: [PYTHON, join(EXAMPLES, "python", "worker.py")], env };
    },
  },
  {
    name: "Java",
    needs: "a JDK, libgrpc-java, libperfmark-java, libnetty-java and protobuf-compiler",
    isHere:
      hasProtoc && works("javac", "-version") && ["grpc-netty", "netty-codec-http2", "perfmark-api"].every(hasJar),
    build(folder) {
      execFileSync(join(EXAMPLES, "java", "build.sh"), [folder], { stdio: "pipe" });
      return { command: [join(folder, "worker")], env: {} };
    },
  },
];

interface Item {
  readonly event_type?: string;
  readonly step_id?: string;
  readonly metadata?: { readonly output?: unknown };
}

const WORKFLOW = {
  id: "undone-elsewhere",
  name: "Undone by a worker in another language",
  published: true,
  start: "book",
  steps: [
    {
      id: "book",
      type: "action",
      action: "conformance.echo",
      inputs: { note: "für zwei 🫖", price: 19.99, tags: [], left: null },
      compensation: { action: "conformance.undo_echo", inputs: {} },
      next: "pay",
    },
    {
      id: "pay",
      type: "action",
      action: "conformance.fail",
      inputs: { code: "card_declined", message: "the limit is 100", retryable: false, outcome_unknown: false },
      next: "done",
    },
    { id: "done", type: "end" },
  ],
};

describe.each(LANGUAGES)("the worker in $name", ({ name, needs, isHere, build }) => {
  describe.skipIf(!isHere)(`(needs ${needs})`, () => {
    const folder = mkdtempSync(join(tmpdir(), "saga-language-"));
    let built: ReturnType<Language["build"]>;
    beforeAll(() => {
      built = build(folder);
    });
    afterAll(() => rmSync(folder, { recursive: true, force: true }));

    it(`keeps the protocol in every case, in ${name}`, async () => {
      const { command, env } = built;
      const report = await runConformance({ command, env: { ...process.env, ...env } });
      expect(report.cases.filter(({ verdict }) => verdict === "failed")).toEqual([]);
      const left = report.cases.filter(({ verdict }) => verdict === "not_applicable").map((each) => each.name);
      // Abilities that it does not have.
      expect(left).toEqual(["credit-change", "batches"]);
    });

    describe("on a real service", () => {
      let database: TestDatabase;
      let node: NodeHandle;
      let worker: ChildProcess;
      beforeAll(async () => {
        database = await createTestDatabase({ max: 2 });
        const { config } = loadConfig({ HTTP_PORT: "0", GRPC_PORT: "0" });
        node = await startNode({ config, databaseUrl: database.url, log: silentLog });
        const { command, env } = built;
        const [program, ...args] = command;
        const addresses = { SAGA_GRPC: `127.0.0.1:${node.grpcPort}`, SAGA_API: `http://127.0.0.1:${node.httpPort}` };
        worker = spawn(program, args, { env: { ...process.env, ...env, ...addresses }, stdio: "ignore" });
      });
      afterAll(async () => {
        worker?.kill("SIGKILL");
        await node?.stop();
        await database?.drop();
      });

      it(`executes a saga that fails late, undoes it, and drains on SIGTERM, in ${name}`, async () => {
        const saga = new Saga(`http://127.0.0.1:${node.httpPort}`);
        const call = async (path: string, body?: object) => {
          const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
          return (await (await fetch(`${saga.url}/api/v1${path}`, body && init)).json()) as {
            readonly items: readonly Item[];
          };
        };
        await until(async () => (await call("/registry/actions?service=conformance")).items.length === 4);
        await call("/workflows", WORKFLOW);
        const run = await saga.run("undone-elsewhere", {});
        expect(run).toMatchObject({ error: { code: "card_declined", step_id: "pay" } });
        expect(run.state).toBe("failed");
        const events = (await call(`/sagas/${run.id}/events?limit=100`)).items;
        const succeeded = events.filter(({ event_type }) => event_type === "step.succeeded");
        const { inputs } = WORKFLOW.steps[0] as { inputs: object };
        expect(succeeded.map(({ step_id, metadata }) => [step_id, metadata?.output])).toEqual([
          ["book", inputs],
          ["book", { phase: "COMPENSATION", undone: `${run.id}:book:1` }],
        ]);
        worker.kill("SIGTERM");
        expect(await until(() => worker.exitCode !== null && `exit code ${worker.exitCode}`)).toBe("exit code 0");
      });
    });
  });
});
