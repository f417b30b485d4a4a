// The README is true: its commands run, block after block, against the service that its own `npm start` starts, and the worker
// that it shows is the file that it names.
// @module-tag both
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { freePorts } from "../harness/ports.js";
import { comesAbout, commandsOf, useTerminal } from "./commands.js";

const ROOT = resolve(import.meta.dirname, "../..");
const README = readFileSync(join(ROOT, "README.md"), "utf8");
const DEFAULT_URL = "http://127.0.0.1:8080";

const blocks = commandsOf("README.md");
const textsOf = (runner: string) => blocks.filter((block) => block.runner === runner).map(({ text }) => text);

const { dataDir, run } = useTerminal();

describe("README", () => {
  it("marks every command with its runner", () => {
    expect(blocks.filter(({ runner }) => !["ci", "service", "worker", "shell"].includes(runner ?? ""))).toEqual([]);
    expect(textsOf("shell").length).toBeGreaterThan(0);
  });

  it("begins with two commands", () => {
    expect(textsOf("ci")).toEqual(["npm ci && npm run demo\n", "npm ci && npm test\n"]);
  });

  it.each(["order.ts", "actions.ts", "worker.ts"])("shows %s of the quick start", (name) => {
    const text = readFileSync(join(ROOT, "examples/quick-start", name), "utf8");
    expect(README).toContain(`\`\`\`ts\n${text}\`\`\``);
  });

  it("waits for a run by asking the service, and in no loop of the shell", () => {
    expect(blocks.filter(({ text }) => /\b(?:until|while|sleep|watch)\b/.test(text))).toEqual([]);
    expect(textsOf("shell").join("\n")).toContain("?wait_ms=");
  });

  it("has commands that work, on a service that it starts itself", { tags: "long", timeout: 400_000 }, async () => {
    const [http, grpc] = await freePorts(2);
    const url = `http://127.0.0.1:${http}`;
    const ports = { HTTP_PORT: String(http), GRPC_PORT: String(grpc) };
    const service = run(textsOf("service").join(""), { ...ports, SAGA_DATA_DIR: dataDir });
    await comesAbout("npm start", service, () => fetch(`${url}/readyz`).then((response) => response.ok));
    await comesAbout("the address of the console", service, () =>
      service.output().includes(`"console":"${url}/console"`),
    );
    const worker = run(textsOf("worker").join(""), { SAGA_API: url, SAGA_GRPC: `127.0.0.1:${grpc}` });
    await comesAbout("the worker", worker, () => worker.output().includes("worker connected"));

    const shell = run(textsOf("shell").join("").replaceAll(DEFAULT_URL, url), {});
    await comesAbout("the end of the commands", shell, () => shell.code() === 0);
    await expectTheStory(url);
  });
});

/** One order was confirmed and charged. The card of the other was declined, and its reservation undone. */
async function expectTheStory(url: string): Promise<void> {
  const read = async (path: string) => (await (await fetch(`${url}/api/v1${path}`)).json()) as { items: Item[] };
  const { items: runs } = await read("/sagas?workflow_id=order&sort=started_at");
  expect(runs.map(({ state }) => state)).toEqual(["succeeded", "failed"]);
  expect(runs[0]?.output).toMatchObject({ reservation: "R-1", confirmed_by: "ann" });
  expect(runs[1]?.error).toMatchObject({ code: "card_declined", step_id: "charge" });
  const { items: undone } = await read(`/sagas/${runs[1]?.id}/undo`);
  expect(undone).toMatchObject([{ step_id: "reserve", action: "shop.release@1", state: "done" }]);
}

interface Item {
  readonly id: string;
  readonly state: string;
  readonly output?: object;
  readonly error?: object;
}
