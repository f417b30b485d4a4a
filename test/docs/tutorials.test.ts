// The tutorials are true: their files and commands, as a reader of the pages would make and run them, one page after another on one service. What
// the pages link to is checked by other tests.
// @module-tag long
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePorts } from "../harness/ports.js";
import { until } from "../harness/until.js";
import { BLOCKS, markOf } from "./blocks.js";
import { comesAbout, type Running, useTerminal } from "./commands.js";

const ROOT = resolve(import.meta.dirname, "../..");
const DEFAULT_URL = "http://127.0.0.1:8080";
/** Where the pages say that the clone is. */
const CLONE = "~/saga-orchestrator";
/** Debian's, for which its packages are. */
const has = (program: string, ...args: string[]) => spawnSync(program, args).status === 0;
const hasGrpc = has("protoc", "--version") && has("/usr/bin/python3", "-c", "import grpc, google.protobuf");
const blocksOf = (page: string) => BLOCKS.filter((block) => block.page === `docs/tutorials/${page}.md`);
const commands = (page: string, runner: string) =>
  blocksOf(page)
    .filter((block) => markOf(block, "run") === runner)
    .map(({ code }) => code)
    .join("");

interface Run {
  readonly state: string;
  readonly output?: unknown;
  readonly error?: object;
  readonly id: string;
}

describe("the tutorials", { timeout: 400_000 }, () => {
  const { dataDir, run } = useTerminal();
  const folder = mkdtempSync(join(tmpdir(), "saga-tutorial-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  let url: string;
  let grpcAddress: string;

  beforeAll(async () => {
    const [http, grpc] = await freePorts(2);
    url = `http://127.0.0.1:${http}`;
    grpcAddress = `127.0.0.1:${grpc}`;
    const ports = { HTTP_PORT: String(http), GRPC_PORT: String(grpc), SAGA_DATA_DIR: dataDir };
    const service = run(commands("first-undo", "service"), ports);
    await comesAbout("npm start", service, () => fetch(`${url}/readyz`).then((response) => response.ok));
    const worker = run(commands("first-undo", "worker"), { SAGA_API: url, SAGA_GRPC: grpcAddress });
    await comesAbout("the worker", worker, () => worker.output().includes("worker connected"));
  }, 400_000);

  /** Saves the files of the page, but those that it has further down. */
  function save(page: string, ...later: readonly string[]): void {
    for (const block of blocksOf(page)) {
      const name = markOf(block, "file");
      if (name !== undefined && !later.includes(name)) writeFileSync(join(folder, name), block.code);
    }
  }

  /** The commands of a terminal of the page, in the folder of its files. */
  function begin(page: string, runner: string, env: Readonly<Record<string, string>> = {}): Running {
    const text = commands(page, runner).replaceAll(DEFAULT_URL, url).replaceAll(CLONE, ROOT);
    if (text === "") throw new Error(`${page} has no commands for ${runner}`);
    // A terminal after the first one has the function of that one.
    return run(`saga() { node ${ROOT}/dist/service/cli/main.js "$@"; }\ncd ${folder}\n${text}`, env);
  }

  async function finish(page: string, runner: string): Promise<Running> {
    const shell = begin(page, runner);
    await comesAbout(`the end of ${runner} of ${page}`, shell, () => shell.code() === 0);
    return shell;
  }

  function follow(page: string): Promise<Running> {
    save(page);
    return finish(page, "shell");
  }

  async function runsOf(workflow: string): Promise<readonly Run[]> {
    const response = await fetch(`${url}/api/v1/sagas?workflow_id=${workflow}&sort=started_at`);
    return ((await response.json()) as { items: Run[] }).items;
  }

  const read = async (path: string) => (await (await fetch(`${url}/api/v1/sagas/${path}`)).json()) as object;
  const undoOf = async ({ id }: Run) => ((await read(`${id}/undo`)) as { items: unknown }).items;

  it("first-undo: a run succeeds, and another one is undone, as the page says", async () => {
    await follow("first-undo");
    const [paid, declined] = (await runsOf("tea")) as [Run, Run];
    expect(paid).toMatchObject({ state: "succeeded" });
    expect(await undoOf(paid)).toMatchObject([{ step_id: "reserve", state: "not_needed" }]);
    expect(declined).toMatchObject({ state: "failed", error: { code: "card_declined" } });
    expect(await undoOf(declined)).toMatchObject([{ step_id: "reserve", state: "done" }]);
  });

  it("approval: a rejection is undone, and an approval ends with its note, as the page says", async () => {
    await follow("approval");
    const [rejected, approved] = (await runsOf("approved-tea")) as [Run, Run];
    expect(rejected).toMatchObject({ state: "failed", error: { code: "approval_rejected" } });
    const [task] = ((await read(`${rejected.id}/user_tasks`)) as { items: object[] }).items;
    expect(task).toMatchObject({ status: "submitted", result: { approved: false, note: "too much tea" } });
    expect(await undoOf(rejected)).toMatchObject([{ step_id: "reserve", state: "done" }]);
    expect(approved).toMatchObject({ state: "succeeded", output: "enjoy" });
  });

  it("first-test: rehearsals pass, fail while the saga lacks its undo, and one is made of a run, as the page says", async () => {
    save("first-test", "declined.saga-test.json");
    expect((await finish("first-test", "shell")).output()).toMatch(/^2 passed, 0 failed$/m);
    save("first-test");
    expect((await finish("first-test", "branch")).output()).toMatch(/^4 passed, 0 failed$/m);
    expect((await finish("first-test", "found")).output()).toMatch(/^1 passed, 0 failed$/m);
    const [made] = (await runsOf("parcel")) as [Run];
    expect(made).toMatchObject({ state: "failed", error: { code: "card_declined" } });
    rmSync(join(folder, "found.saga-test.json"));

    const watch = begin("first-test", "watch");
    const rounds = () => watch.output().split("waiting for a change").length - 1;
    const lastRound = () => watch.output().split("waiting for a change").at(-2) ?? "";
    await comesAbout("the first round", watch, () => rounds() === 1 && lastRound().includes("4 passed, 0 failed"));
    await finish("first-test", "change");
    await comesAbout("the failures", watch, () => lastRound().includes("2 passed, 2 failed"));
    expect(lastRound()).toContain('undone is [], not ["reserve"]');
    await finish("first-test", "mend");
    await comesAbout("the mended round", watch, () => lastRound().includes("4 passed, 0 failed") && rounds() > 2);
    await watch.stop();
  });

  describe.skipIf(!has("python3", "--version"))("worker-elsewhere (needs python3)", () => {
    const page = "worker-elsewhere";

    /** A run that succeeds and one that is undone, by the steps of a worker. */
    async function expectBoth(workflow: string, output: string): Promise<void> {
      const [brewed, bitter] = (await runsOf(workflow)) as [Run, Run];
      expect(brewed).toMatchObject({ state: "succeeded", output });
      expect(bitter).toMatchObject({ state: "failed", error: { code: "bitter", step_id: "brew" } });
      expect(await undoOf(bitter)).toMatchObject([{ step_id: "boil", state: "done" }]);
    }

    it("a worker over HTTP takes steps, sends heartbeats and undoes, as the page says", async () => {
      save(page);
      expect(commands(page, "service")).toBe(commands("first-undo", "service"));
      const [port] = await freePorts(1);
      const kitchen = begin(page, "kitchen", { SAGA_API: url, KITCHEN_PORT: String(port) });
      await comesAbout("the kitchen", kitchen, () => kitchen.output().includes("the kitchen is open"));
      await finish(page, "shell");
      await expectBoth("pot", "green");
      expect(kitchen.output()).toContain("COMPENSATION pour_away");
    });

    it.skipIf(!hasGrpc)("does the same over gRPC (needs python3-grpcio, python3-protobuf and protoc)", async () => {
      save(page);
      await finish(page, "build");
      const kettle = begin(page, "kettle", { SAGA_API: url, SAGA_GRPC: grpcAddress });
      const isThere = async () =>
        (await (await fetch(`${url}/api/v1/workers?service=kettle`)).text()).includes("kettle:");
      await comesAbout("the kettle", kettle, isThere);
      await finish(page, "again");
      await expectBoth("pot-again", "black");
      const right = await finish(page, "conformance");
      expect(right.output()).toContain("3 passed, 0 failed");
      const wrong = begin(page, "mistake");
      await until(() => wrong.code() !== undefined, { what: "the end of the conformance" });
      expect(wrong.code()).toBe(1);
      // Its times differ.
      const shown = blocksOf(page).find(({ language }) => language === "text")?.code ?? "no report";
      const withoutNumbers = (text: string) => text.replaceAll(/[\d.]+/g, "0");
      expect(withoutNumbers(wrong.output())).toContain(withoutNumbers(shown));
    });
  });
});
