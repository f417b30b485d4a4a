// What is done with keys, definitions and registrations is in the security log: by which credential, from where, by which request. Never a token.

import { Writable } from "node:stream";
import type { FastifyInstance } from "fastify";
import { afterAll, beforeAll, expect, it } from "vitest";
import { SecurityLog } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { createLogger } from "../../src/log.js";
import { verifierOf } from "../harness/verifier.js";
import { otherApi, useRig, WORKFLOW } from "./rig.js";

const TENANT = uuidv7();
const rig = useRig();
let app: FastifyInstance;

beforeAll(async () => {
  const verifier = verifierOf({ ada: { roles: ["admin", "worker"], tenantId: TENANT, services: ["shop"] } });
  app = await otherApi(rig, {}, { verifier });
});
afterAll(() => app?.close());

async function ask(method: "POST" | "DELETE", url: string, payload?: object) {
  rig.logLines.length = 0;
  const headers = { host: "localhost", authorization: "Bearer ada" };
  const answer = await app.inject({ method, url, headers, ...(payload && { payload }) });
  expect([url, answer.statusCode < 300]).toEqual([url, true]);
  const noted = rig.logLines.map((line) => JSON.parse(line)).filter(({ audit }) => audit === true);
  const id = answer.headers["x-request-id"];
  for (const line of noted)
    expect(line).toMatchObject({ credential: "user:ada", address: "127.0.0.1", request_id: id });
  return { body: answer.body === "" ? undefined : answer.json(), noted, text: rig.logLines.join("\n") };
}

it("has keys that are made and revoked, and not the key", async () => {
  const made = await ask("POST", "/api/v1/api_keys", { name: "ci", roles: ["viewer"] });
  expect(made.noted).toMatchObject([{ msg: "API key made", key: made.body.id, route: "POST /api/v1/api_keys" }]);
  expect(made.text).not.toContain(made.body.key);
  expect(made.text).not.toContain(made.body.key.split("_")[2]);
  const { noted } = await ask("DELETE", `/api/v1/api_keys/${made.body.id}`);
  expect(noted).toMatchObject([{ msg: "API key revoked", key: made.body.id, route: "DELETE /api/v1/api_keys/:id" }]);
});

it("has what is published and unpublished, and not what is only posted", async () => {
  expect((await ask("POST", "/api/v1/workflows", WORKFLOW)).noted).toEqual([]);
  const item = `/api/v1/workflows/${WORKFLOW.id}/versions/1`;
  const about = { workflow_id: WORKFLOW.id, version: 1 };
  const { noted } = await ask("POST", `${item}/publish`);
  expect(noted).toMatchObject([
    { msg: "workflow published", ...about, route: "POST /api/v1/workflows/:wf_id/versions/:version/publish" },
  ]);
  expect((await ask("POST", `${item}/unpublish`)).noted).toMatchObject([{ msg: "workflow unpublished", ...about }]);
  const next = await ask("POST", "/api/v1/workflows", { ...WORKFLOW, name: "Other", published: true });
  expect(next.noted).toMatchObject([{ msg: "workflow published", workflow_id: WORKFLOW.id, version: 2 }]);
});

it("has a post that publishes a draft, and not the same post again, which changes nothing", async () => {
  const post = { ...WORKFLOW, id: "posted-again" };
  expect((await ask("POST", "/api/v1/workflows", post)).noted).toEqual([]);
  const published = { ...post, published: true };
  expect((await ask("POST", "/api/v1/workflows", published)).noted).toMatchObject([{ msg: "workflow published" }]);
  expect((await ask("POST", "/api/v1/workflows", published)).noted).toEqual([]);
});

it("has changes of a registration's address, and of nothing else of it", async () => {
  const register = (more: object) =>
    ask("POST", "/api/v1/registry/register", {
      service: "shop",
      actions: [{ action_name: "pay", transport: "http", address: "http://127.0.0.1:9/pay", ...more }],
    });
  expect((await register({})).noted).toEqual([]);
  expect((await register({ description: "pays" })).noted).toEqual([]);
  const moved = await register({ description: "pays", address: "http://127.0.0.2:9/pay" });
  expect(moved.noted).toMatchObject([
    { msg: "address of a registration changed", action: "shop.pay@1", members: ["address"] },
  ]);
});

it("has a use of a secret once a minute for each secret, workflow and tenant, and a bounded number of them", () => {
  const lines: Record<string, unknown>[] = [];
  const out = new Writable({
    write(chunk, _encoding, done) {
      lines.push(JSON.parse(String(chunk)));
      done();
    },
  });
  let now = 0;
  const log = new SecurityLog(createLogger({ logLevel: "info" }, out), () => now);
  const use = { secret: "stripe", workflow: "orders", tenant: TENANT };
  const line = { secret_ref: "stripe", workflow: "orders", tenant: TENANT };
  for (let nth = 0; nth < 3; nth++) log.secretUsed(use);
  log.secretUsed({ ...use, tenant: null });
  expect(lines).toMatchObject([
    { audit: true, msg: "secret used", ...line },
    { secret_ref: "stripe", workflow: "orders" },
  ]);
  now += 59_999;
  log.secretUsed(use);
  expect(lines).toHaveLength(2);
  now += 1;
  log.secretUsed(use);
  expect(lines).toHaveLength(3);
  for (let nth = 0; nth < 1_500; nth++) log.secretUsed({ ...use, workflow: `w${nth}` });
  expect(lines).toHaveLength(2 + 1_000);
  now += 60_000;
  log.secretUsed(use);
  expect(lines.at(-1)).toMatchObject({ secret_ref: "stripe", omitted: 501 });
});
