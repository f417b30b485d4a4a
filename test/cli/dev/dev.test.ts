// `saga dev` from the build, in a folder with a JSON definition and a worker in plain JavaScript, on a database of the test. Its parts are not tested alone.
// @module-tag long
import { existsSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../../harness/database.js";
import { until } from "../../harness/until.js";
import { Dev, processesIn, project, write } from "./rig.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());
const env = () => ({ DATABASE_URL: database.url });

/** Its worker answers with this word. */
const workerSaying = (word: string) => `
import { createWorker, defineAction, runWorker } from "@saga-orchestrator/worker";
import { word } from "./word.js";
const any = { type: "object" };
const worker = createWorker({ service: "greeter", grpc: process.env.SAGA_GRPC, api: process.env.SAGA_API });
worker.handle(defineAction({ service: "greeter", name: "greet", input: any, output: any }), () => ({ said: word + ${JSON.stringify(word)} }));
console.log("plain text from the worker 🙂");
await runWorker(worker);
`;
const definition = (id: string, more: object = {}) =>
  JSON.stringify({
    ...{ id, name: id },
    steps: [
      { id: "greet", type: "action", action: "greeter.greet", inputs: {}, next: "done" },
      { id: "done", type: "end", output: { said: "${vars.greet.said}", ...more } },
    ],
    start: "greet",
  });

interface Run {
  readonly run_id: string;
  readonly state: string;
  readonly output?: unknown;
}

async function outputOf(dev: Dev, workflow: string): Promise<unknown> {
  const { run_id: id } = await dev.ask<Run>("/sagas/start", { workflow_id: workflow, inputs: {} });
  const run = await dev.ask<Run>(`/sagas/${id}?wait_ms=30000`);
  return run.output;
}

const published = async (dev: Dev, workflow: string) =>
  (await dev.ask<{ version: number }>(`/workflows/${workflow}`)).version;

const filesOf = (word: string, id: string) => ({
  "workflows/greet.workflow.json": definition(id),
  "worker.js": workerSaying(word),
  "word.js": 'export const word = "";',
});

/** No process of it, no lock, no file of its own. */
async function expectNothingLeft(folder: string): Promise<void> {
  await until(() => processesIn(folder).length === 0, { within: 10_000, what: "the end of every process" });
  expect(existsSync(join(folder, ".saga", "dev.json"))).toBe(false);
  expect(readdirSync(join(folder, ".saga")).filter((name) => name.includes("dev"))).toEqual([]);
}

describe("saga dev in a pipe", () => {
  const folder = project(filesOf("hello", "greet-in-pipe"));
  let dev: Dev;
  beforeAll(async () => {
    dev = await Dev.inPipe(folder, env());
    await dev.says('"msg":"ready","console"');
  });

  it("publishes the definition, runs the worker, and a run of it succeeds", async () => {
    expect(await outputOf(dev, "greet-in-pipe")).toEqual({ said: "hello" });
    expect(dev.output).toContain('"msg":"greet-in-pipe: version 1 is published (workflows/greet.workflow.json)"');
  });

  it("passes each line on as it came, and writes its own as JSON", () => {
    const lines = dev.output.split("\n").filter((line) => line !== "");
    expect(lines).toContain("plain text from the worker 🙂");
    const others = lines.filter((line) => !line.startsWith("plain text"));
    expect(others.map((line) => typeof JSON.parse(line).level)).toEqual(others.map(() => "string"));
    expect(dev.raw).not.toContain("\x1b");
  });

  it("says that the worker's actions are known, not that they are missing", () => {
    expect(dev.output).not.toContain("is not registered");
  });

  it("starts the worker again when a file that it loads has changed, and for no other file", async () => {
    let from = dev.place;
    // A file that nothing loads, written first: had it restarted the worker, that would be one start too many.
    write(folder, { "notes.js": "export {};", "out/result.json": "{}" });
    write(folder, { "word.js": 'export const word = "good ";' });
    from = await dev.says('"msg":"started worker.js"', from);
    await until(async () => ((await outputOf(dev, "greet-in-pipe")) as { said: string }).said === "good hello");
    write(folder, { "word.js": 'export const word = "";' });
    from = await dev.says('"msg":"started worker.js"', from);
    expect(dev.output.split('"msg":"started worker.js"')).toHaveLength(4);
  });

  it("publishes a changed definition, none that is wrong, and a mended one; an old text becomes the latest again", async () => {
    const path = "workflows/greet.workflow.json";
    let from = dev.place;
    write(folder, { [path]: definition("greet-in-pipe", { money: 9.5 }) });
    from = await dev.says("version 2 is published", from);
    expect(await outputOf(dev, "greet-in-pipe")).toMatchObject({ money: 9.5 });

    write(folder, { [path]: definition("greet-in-pipe").replace('"next":"done"', '"next":"nowhere"') });
    from = await dev.says("greet-in-pipe is not valid, and is not published:", from);
    await dev.says(/\$\.steps\[0\]\.next .*nowhere/, from);
    expect(await published(dev, "greet-in-pipe")).toBe(2);

    write(folder, { [path]: '{ "id": "greet-in-pipe",\n "steps": [ }' });
    from = await dev.says(/greet\.workflow\.json: is not JSON: /, from);
    expect(await published(dev, "greet-in-pipe")).toBe(2);

    write(folder, { [path]: definition("greet-in-pipe") });
    await dev.says("version 3 is published", from);
    expect(await outputOf(dev, "greet-in-pipe")).toEqual({ said: "hello" });
  });

  it("shows a crash of the worker, does not run it in a hot loop, and starts it when the file is mended", async () => {
    let from = dev.place;
    write(folder, { "worker.js": "console.error('about to crash'); throw new Error('no database 💥');" });
    from = await dev.says("no database 💥", from);
    from = await dev.says(/the worker has crashed \(code 1\): it is started again in (?:0\.[5-9]|1\.0) s/, from);
    // By itself, once more, with a longer pause.
    from = await dev.says(/it is started again in (?:1\.[0-9]|2\.0) s/, from);
    write(folder, { "worker.js": workerSaying("hello again") });
    await dev.says('"msg":"started worker.js"', from);
    await until(async () => ((await outputOf(dev, "greet-in-pipe")) as { said: string }).said === "hello again");
  });

  it("says that another one has the folder", async () => {
    const second = await Dev.inPipe(folder, env());
    expect(await second.ended).toBe(2);
    expect(second.output).toMatch(
      /^saga: another saga dev runs in .* \(process \d+, http:\/\/127\.0\.0\.1:\d+\/console\): use that one/,
    );
    expect(await published(dev, "greet-in-pipe")).toBe(3);
  });

  it("makes no new version of what is unchanged, and leaves nothing behind after SIGTERM", async () => {
    dev.interrupt("SIGTERM");
    expect(await dev.ended).toBe(0);
    expect(dev.output).toMatch(
      /"msg":"stopping the worker"[\s\S]*"msg":"stopping the service"[\s\S]*"msg":"stopped"\}\n$/,
    );
    await expectNothingLeft(folder);
    dev = await Dev.inPipe(folder, env());
    await dev.says("greet-in-pipe: version 3 is as it was");
    expect(await published(dev, "greet-in-pipe")).toBe(3);
    dev.interrupt("SIGHUP");
    expect(await dev.ended).toBe(0);
    await expectNothingLeft(folder);
  });
});

describe("saga dev in a terminal", () => {
  it("shows lines with their part, and one banner; one Ctrl-C ends all of it", async () => {
    const folder = project(filesOf("hi", "greet-in-terminal"));
    const dev = await Dev.inTerminal(folder, env());
    await dev.says("Ctrl-C stops everything");
    expect(dev.output).toContain("worker      | plain text from the worker 🙂");
    expect(dev.output).toMatch(/^service {5}\| .*gRPC server listening/m);
    expect(dev.output).toMatch(/^definitions \| greet-in-terminal: version 1 is published/m);
    expect(dev.output).toContain(`Console  ${dev.api}/console`);
    expect(dev.output).not.toContain('{"level"');
    expect(dev.raw).toContain("\x1b[");
    const page = await fetch(`${dev.api}/console`);
    expect(page.status).toBe(200);
    let from = dev.place;
    write(folder, { "worker.js": `${workerSaying("hi")}; syntax error` });
    from = await dev.says(/worker {6}\| .*SyntaxError|worker {6}\| .*Transform failed/, from);
    from = await dev.says("error: the worker has crashed", from);
    dev.interrupt();
    expect(await dev.ended).toBe(0);
    await expectNothingLeft(folder);
  });

  it("starts in an empty folder, says what it has looked for, and takes it up when it comes", async () => {
    const folder = project({});
    const dev = await Dev.inTerminal(folder, env());
    let from = await dev.says("no worker: looked for worker.ts and worker.js");
    from = await dev.says("no definitions: looked for .json, .ts and .js files in workflows/**", from);
    from = await dev.says("Ctrl-C stops everything", from);
    write(folder, filesOf("late", "greet-late"));
    await dev.says("greet-late: version 1 is published", from);
    await until(async () => ((await outputOf(dev, "greet-late")) as { said: string }).said === "late");
    rmSync(join(folder, "worker.js"));
    await dev.says("no worker: looked for", from);
    dev.interrupt();
    expect(await dev.ended).toBe(0);
    await expectNothingLeft(folder);
  });
});

describe("definitions in TypeScript", () => {
  it("are published from modules that export sagas, and reloaded with what they import", async () => {
    const typed = `
import { said, type Said } from "../said.js";
const document = { id: "typed", name: "typed", start: "done", steps: [{ id: "done", type: "end", output: { said } satisfies Said }] };
/** As the packages make them. */
export const typed = { id: "typed", toJSON: () => document };
export default typed;
export const plain = { ...document, id: "plain" };
export const helper = (text: string): string => text;
`;
    const folder = project({
      "saga.config.json": '{ "definitions": ["sagas/**/*.ts"], "worker": "src/worker.ts" }',
      "sagas/deep/typed.ts": typed.replaceAll("../said", "../../said"),
      "sagas/typed.test.ts": "throw new Error('a test is no definition');",
      "said.ts":
        'export interface Said { said: string }\nexport enum Word { one = "one" }\nexport const said: string = Word.one;',
      "src/worker.ts": "const ended: number = 0; process.exitCode = ended;",
    });
    const dev = await Dev.inPipe(folder, env());
    let from = await dev.says("the worker has ended without an error");
    from = await dev.says("typed: version 1 is published (sagas/deep/typed.ts#");
    await dev.says('"msg":"ready","console"', from);
    expect(await published(dev, "plain")).toBe(1);
    from = dev.place;
    write(folder, { "said.ts": "export interface Said { said: string }\nexport const said = ;" });
    from = await dev.says(/sagas\/deep\/typed\.ts: .*said\.ts:2:2\d/, from);
    expect(await published(dev, "typed")).toBe(1);
    write(folder, { "said.ts": 'export interface Said { said: string }\nexport const said = "two";' });
    await dev.says("plain: version 2 is published", from);
    await dev.says("typed: version 2 is published", from);
    expect(await outputOf(dev, "typed")).toEqual({ said: "two" });
    dev.interrupt();
    expect(await dev.ended).toBe(0);
    await expectNothingLeft(folder);
  });
});

describe("triggers", () => {
  const nightly = (more: object = {}, config: object = {}) =>
    JSON.stringify({
      ...{ trigger_type: "cron", workflow_id: "close", config: { schedule: "0 3 1 1 *", ...config }, ...more },
    });
  const close = (id: string) =>
    JSON.stringify({ id, name: id, start: "done", steps: [{ id: "done", type: "end", output: "${inputs}" }] });
  const path = "workflows/nightly.trigger.json";
  const folder = project({ [path]: nightly(), "workflows/close.workflow.json": close("close") });

  interface Trigger {
    readonly id: string;
    readonly workflow_id: string;
    readonly config: Readonly<Record<string, unknown>>;
    readonly enabled: boolean;
  }
  const all = async (dev: Dev) => (await dev.ask<{ items: readonly Trigger[] }>("/triggers?limit=100")).items;
  const only = async (dev: Dev) => {
    const items = await all(dev);
    expect(items).toHaveLength(1);
    return items[0] as Trigger;
  };
  const disable = async (dev: Dev, { id }: Trigger) => {
    const answer = await fetch(`${dev.api}/api/v1/triggers/${id}`, {
      ...{ method: "PATCH", headers: { "content-type": "application/json" }, body: '{ "enabled": false }' },
    });
    expect(answer.status).toBe(200);
  };
  let dev: Dev;
  beforeAll(async () => {
    dev = await Dev.inPipe(folder, env());
    await dev.says('"msg":"ready","console"');
  });

  it("of documents are created behind their workflows, and start them", async () => {
    const trigger = await only(dev);
    expect(dev.output).toContain(`trigger ${trigger.id} of close is created (${path})`);
    const { run_id: id } = await dev.ask<{ run_id: string }>(`/triggers/${trigger.id}/fire`, {});
    expect(await dev.ask<Run>(`/sagas/${id}?wait_ms=30000`)).toMatchObject({
      state: "succeeded",
      output: { trigger: { id: trigger.id } },
    });
  });

  it("of changed documents are changed, and one that was disabled stays so until its document says something else", async () => {
    const { id } = await only(dev);
    let from = dev.place;
    await disable(dev, await only(dev));
    write(folder, { [path]: nightly({}, { inputs: { amount: 9.5, text: "🙂" } }) });
    from = await dev.says(`trigger ${id} of close is changed`, from);
    const inputs = { amount: 9.5, text: "🙂" };
    expect(await only(dev)).toMatchObject({ id, enabled: false, config: { schedule: "0 3 1 1 *", inputs } });
    write(folder, { [path]: nightly({ enabled: false }, { inputs }) });
    from = await dev.says(`trigger ${id} of close is changed`, from);
    write(folder, { [path]: nightly({ enabled: true }, { inputs }) });
    await dev.says(`trigger ${id} of close is changed`, from);
    expect(await only(dev)).toMatchObject({ id, enabled: true });
  });

  it("that are wrong change nothing, and their problems have paths", async () => {
    const before = await only(dev);
    let from = dev.place;
    write(folder, { [path]: nightly({}, { schedule: "61 * * * *" }) });
    from = await dev.says(`${path}: the trigger is not valid, and is not published:`, from);
    await dev.says(/\$\.config\.schedule /, from);
    write(folder, { [path]: '{ "trigger_type": "cron" ' });
    from = await dev.says(/nightly\.trigger\.json: is not JSON: /, from);
    expect(await only(dev)).toEqual(before);
  });

  it("of a workflow that comes later are made when it is there, in place of the one before", async () => {
    const before = await only(dev);
    let from = dev.place;
    write(folder, { [path]: nightly({ workflow_id: "later" }) });
    from = await dev.says(/the trigger is not valid.*later/, from);
    expect(await only(dev)).toEqual(before);
    write(folder, { "workflows/later.workflow.json": close("later") });
    await dev.says(/trigger \S+ of later is replaced/, from);
    await until(async () => (await all(dev)).length === 1);
    const after = await only(dev);
    expect([after.workflow_id, after.id === before.id]).toEqual(["later", false]);
  });

  it("stay as they are over a restart, also where the file of what has been made is lost", async () => {
    const before = await only(dev);
    for (const isLost of [false, true]) {
      dev.interrupt("SIGTERM");
      expect(await dev.ended).toBe(0);
      if (isLost) rmSync(join(folder, ".saga", "triggers.json"));
      dev = await Dev.inPipe(folder, env());
      await dev.says(`trigger ${before.id} of later is ${isLost ? "created" : "as it was"}`);
      expect(await only(dev)).toEqual(before);
    }
  });

  it("of documents that are gone are deleted, and not those of a module that cannot be loaded", async () => {
    let from = dev.place;
    const text = `export const nightly = ${nightly({ workflow_id: "later" })};`;
    write(folder, { "workflows/triggers.js": text });
    from = await dev.says(/of later is created \(workflows\/triggers\.js#nightly\)/, from);
    rmSync(join(folder, path));
    from = await dev.says(/trigger \S+ is deleted: workflows\/nightly\.trigger\.json is gone/, from);
    const left = await only(dev);
    write(folder, { "workflows/triggers.js": `${text} = ;` });
    from = await dev.says(/workflows\/triggers\.js: Unexpected token/, from);
    expect(await only(dev)).toEqual(left);
    write(folder, { "workflows/triggers.js": "export const other = 1;" });
    await dev.says("workflows/triggers.js#nightly is gone", from);
    expect(await all(dev)).toEqual([]);
    dev.interrupt();
    expect(await dev.ended).toBe(0);
  });
});

describe("the ports of saga dev", () => {
  it("are the next free ones where a usual one is taken, and are said and given to the worker", async () => {
    const folder = project({ "worker.js": "console.log('worker sees', process.env.SAGA_URL, process.env.SAGA_GRPC);" });
    // Taken by the test, unless another program has it already.
    const other = createServer();
    await new Promise((done) => other.once("listening", done).once("error", done).listen(8080, "127.0.0.1"));
    const dev = await Dev.inTerminal(folder, { ...env(), HTTP_PORT: "", GRPC_PORT: "" });
    await dev.says("Ctrl-C stops everything");
    const [, port = ""] = /other programs have port 8080.*: the service is at (\d+) and/.exec(dev.output) ?? [];
    expect(Number(port)).toBeGreaterThan(8080);
    expect(dev.output).toContain(`worker sees http://127.0.0.1:${port} 127.0.0.1:`);
    expect(dev.output).toContain(`In other terminals: export SAGA_URL=http://127.0.0.1:${port}`);
    other.close();
    dev.interrupt();
    expect(await dev.ended).toBe(0);
  });
});

describe("what is wrong", () => {
  it.each([
    ["a configuration that is not JSON", "{", /^saga: saga\.config\.json is not JSON/],
    [
      "an unknown member of it",
      '{ "wroker": "a.ts" }',
      /^saga: saga\.config\.json has an unknown member "wroker": it may have definitions and worker\n$/,
    ],
    [
      "a worker outside the folder",
      '{ "worker": "../a.ts" }',
      /^saga: worker in saga\.config\.json must be the path of a file below/,
    ],
    [
      "no definitions at all",
      '{ "definitions": [] }',
      /^saga: definitions in saga\.config\.json must be a pattern such as/,
    ],
  ])("%s is said in one sentence, with exit code 2", async (_, text, sentence) => {
    const dev = await Dev.inPipe(project({ "saga.config.json": text }), env());
    expect([await dev.ended, dev.output.match(sentence)?.length]).toEqual([2, 1]);
  });

  it("a service that cannot start ends the command with its sentence and exit code 1", async () => {
    const folder = project({});
    const dev = await Dev.inPipe(folder, { DATABASE_URL: database.url, HOST: "0.0.0.0" });
    const code = await dev.ended;
    expect(dev.output).toMatch(
      /HOST is beyond loopback[\s\S]*"msg":"the service has ended \(code 1\): its last lines are above"/,
    );
    expect(code).toBe(1);
    await expectNothingLeft(folder);
  });
});

describe("saga dev with the embedded Postgres", () => {
  it("keeps its data in the folder, hurries at a second Ctrl-C, and leaves neither a process nor a lock", async () => {
    const folder = project(filesOf("kept", "greet-kept"));
    const dev = await Dev.inTerminal(folder, {});
    await dev.says("Ctrl-C stops everything");
    expect(dev.output).toContain(`${join(folder, ".saga")} (embedded Postgres)`);
    expect(await outputOf(dev, "greet-kept")).toEqual({ said: "kept" });
    dev.interrupt();
    expect(await dev.ended).toBe(0);
    await expectNothingLeft(folder);

    // A step hangs: the worker takes its 10 s for it.
    write(folder, {
      "worker.js": "process.on('SIGTERM', () => console.log('I do not go')); setInterval(() => {}, 1000);",
    });
    const again = await Dev.inTerminal(folder, {});
    await again.says("greet-kept: version 1 is as it was");
    await again.says("Ctrl-C stops everything");
    again.interrupt();
    const from = await again.says("I do not go");
    await until(
      () => {
        again.interrupt();
        return again.output.slice(from).includes("stopping the service");
      },
      { within: 8_000 },
    );
    expect(await again.ended).toBe(0);
    await expectNothingLeft(folder);
    expect(existsSync(join(folder, ".saga", "postgres", "postmaster.pid"))).toBe(false);
  });

  it("that is killed takes its children with it, and the next one starts", async () => {
    const folder = project(filesOf("next", "greet-next"));
    const dev = await Dev.inPipe(folder, {});
    await dev.says('"msg":"ready","console"');
    dev.kill();
    await dev.ended;
    await until(() => processesIn(folder).length === 0, { within: 60_000, what: "the end of every child" });
    expect(existsSync(join(folder, ".saga", "dev.json"))).toBe(true);
    const next = await Dev.inPipe(folder, {});
    await next.says('"msg":"ready","console"');
    expect(await outputOf(next, "greet-next")).toEqual({ said: "next" });
    next.interrupt();
    expect(await next.ended).toBe(0);
    await expectNothingLeft(folder);
  });
});
