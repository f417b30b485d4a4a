// What a schema marks with `x-secret` reaches workers and servers, and nothing else: a run that uses everything, on one node, on several, and with
// access on, and no byte of a canary in any answer, stream, row of the audit log, file or line of the log.
// @module-tag long
import { describe, expect, it } from "vitest";
import { inProcess } from "../cli/rig.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService } from "../harness/service.js";
import { until } from "../harness/until.js";
import { newKeyIn, TENANT } from "./access-rig.js";
import { AMOUNT, canary, leaks, SECRET_INPUTS, Sensitive } from "./sensitive-rig.js";

interface Setting {
  readonly name: string;
  readonly env: Readonly<Record<string, string>>;
  readonly access?: true;
}

const SETTINGS: readonly Setting[] = [
  { name: "one node", env: { SAGA_WORKERS: "1" } },
  { name: "three nodes", env: { SAGA_WORKERS: "3" } },
  { name: "two nodes with access on", env: { SAGA_WORKERS: "2", SAGA_AUTH: "api_key" }, access: true },
];

async function keysIn(database: TestDatabase) {
  const make = (name: string, roles: readonly string[]) =>
    newKeyIn(database, { name, roles, services: ["*"], secrets: ["*"], tenantId: TENANT });
  return { key: await make("own", ["admin"]), worker: await make("worker", ["worker"]) };
}

/** What an assistant is told by each tool that reads. */
async function told(env: Readonly<Record<string, string>>, runId: string): Promise<ReadonlyMap<string, string>> {
  const given = { run_id: runId, workflow_id: "whole", expression: "[inputs, vars]", rule_id: "none", inputs: {} };
  const ask = (lines: readonly object[]) =>
    inProcess(["mcp"], env, lines.map((line, id) => `${JSON.stringify({ jsonrpc: "2.0", id, ...line })}\n`).join(""));
  const listed = JSON.parse((await ask([{ method: "tools/list" }])).stdout);
  const tools = listed.result.tools as { name: string; inputSchema: { properties: object } }[];
  const calls = tools.map(({ name, inputSchema: { properties } }) => ({
    method: "tools/call",
    params: { name, arguments: Object.fromEntries(Object.entries(given).filter(([member]) => member in properties)) },
  }));
  const lines = (await ask(calls)).stdout.trim().split("\n");
  return new Map(tools.map(({ name }, nth) => [name, lines[nth] ?? ""]));
}

describe.each(SETTINGS)("secret values on $name", ({ env, access }) => {
  it("reach workers and servers, and are masked in all that can be read", async () => {
    const database = await createTestDatabase({ max: 2 });
    const keys: { readonly key?: string; readonly worker?: string } = access ? await keysIn(database) : {};
    const service = await createService({
      ...{
        DATABASE_URL: database.url,
        LOG_LEVEL: "trace",
        SAGA_EGRESS_ALLOW: "127.0.0.1",
        ...(access ? {} : { SAGA_AUTH: "" }),
      },
      ...env,
    });
    await service.start();
    const rig = await Sensitive.open(service, keys);
    try {
      await rig.publish();
      const runs = [await rig.live("ann"), await rig.live("fails")];
      const [done = "", failed = ""] = runs;

      // Plain to workers and servers.
      const card = JSON.stringify(SECRET_INPUTS.card);
      const keep = `keep {"pin":"pin ${canary("pin")}","card":${card},"vip":true}`;
      const item = (nth: number) => `keep {"pin":"${canary(`token-${nth}`)}"}`;
      expect(new Set(rig.worked)).toEqual(
        new Set([
          ...[keep, item(1), item(2), `break {"pin":"${canary("pin")}","amount":${AMOUNT}}`],
          `drop {"pin":"${canary("pin")}","receipt":"${canary("receipt")}"}`,
        ]),
      );
      await until(() => rig.site.asked.filter(({ path }) => path.startsWith("/hook")).length >= 2, {
        what: "webhooks",
      });
      for (const { path, headers, body } of rig.site.asked) {
        expect(path).toContain(`/${canary("path")}`);
        expect(headers["x-pin"]).toBe(canary("pin"));
        if (path.startsWith("/call"))
          expect([path, JSON.parse(body)]).toEqual([
            expect.stringContaining(`pin=${canary("pin")}`),
            { card: SECRET_INPUTS.card },
          ]);
        else expect(JSON.parse(body)).toMatchObject({ type: "told", data: { pin: canary("pin") } });
      }

      // Masked in views, each at its place.
      const { json: run } = await rig.ask(`/api/v1/sagas/${done}`);
      expect(run).toMatchObject({
        state: "succeeded",
        inputs: {
          customer: "ann",
          pin: "***",
          amount: "***",
          vip: "***",
          card: "***",
          tokens: ["***", "***"],
          map: { one: "***" },
        },
        output: { pin: "***", customer: "ann" },
        variables: {
          ...{ text: "***", sum: "***", keep: { receipt: "***", marked: "***" }, call: { status: 200, body: "***" } },
          ...{ each: [{ receipt: "***" }, { receipt: "***" }], child: "***", join: { a: { pin: "***" }, b: "***" } },
          ...{ hear: { payload: { pin: "***" } }, outside: { payload: { code: "***", plain: "heard" } } },
          ...{
            signal: { code: "***", plain: "signalled" },
            ask: { answer: "***" },
            break: { error: { code: "no-***", message: "refused *** and ***" } },
          },
        },
      });
      expect((await rig.ask(`/api/v1/sagas/${failed}`)).json).toMatchObject({ state: "failed", last_error: "***" });

      // Nowhere else.
      for (const runId of runs) {
        const answers = await rig.readAll(runId);
        expect(answers.size).toBeGreaterThan(40);
        expect(leaks(answers)).toEqual([]);
        expect(answers.get(`/api/v1/sagas/${runId}`)).toContain("***");
      }
      const asked = new Map<string, string>();
      for (const expression of [
        "inputs.pin",
        "vars",
        "inputs.pin == 'x'",
        "inputs.amount / 0",
        "[inputs.card]",
        "output",
      ])
        asked.set(expression, (await rig.ask(`/api/v1/sagas/${done}/query`, { expression })).text);
      asked.set(
        "rehearsal",
        (await rig.ask("/api/v1/workflows/whole/test", { inputs: { customer: "ann", ...SECRET_INPUTS }, mocks: {} }))
          .text,
      );
      asked.set(
        "refused",
        (await rig.ask("/api/v1/sagas/start", { workflow_id: "whole", inputs: { pin: 1, card: canary("no-object") } }))
          .text,
      );
      expect(leaks(asked)).toEqual([]);
      expect(JSON.parse(asked.get("inputs.amount / 0") ?? "")).toMatchObject({ value: "***" });
      const settings = { SAGA_URL: service.url, ...(keys.key && { SAGA_TOKEN: keys.key }) };
      for (const args of [["get", done], ["watch", done], ["explain", failed], ["query", done, "vars"], ["list"]]) {
        const { code, stdout, stderr } = await inProcess(args, settings);
        expect([args, code, stdout.length > 20]).toEqual([args, 0, true]);
        expect(leaks([[args.join(" "), stdout + stderr]])).toEqual([]);
      }
      for (const runId of runs) {
        const answers = await told(settings, runId);
        expect(answers.size).toBeGreaterThan(10);
        expect(answers.get("get_run")).toContain("***");
        expect(leaks(answers)).toEqual([]);
      }
      await until(() => rig.frames.filter((frame) => frame.includes('"type":"end"')).length === 2, {
        what: "the ends of the streams",
      });
      expect(rig.frames.some((frame) => frame.includes("@xstate"))).toBe(true);
      expect(leaks(rig.frames.map((frame, nth) => [`frame ${nth}`, frame]))).toEqual([]);
      const rows = await database.sql<{ text: string }[]>`select row_to_json(e)::text as text from run_events e`;
      expect(rows.length).toBeGreaterThan(100);
      expect(leaks(rows.map(({ text }, nth) => [`row ${nth}`, text]))).toEqual([]);
      expect(leaks(service.log.map((line, nth) => [`line ${nth}`, line]))).toEqual([]);
      expect(leaks([["metrics", (await rig.ask("/metrics")).text]])).toEqual([]);
    } finally {
      await rig.close();
      await service.stop();
      await database.drop();
    }
  });
});
