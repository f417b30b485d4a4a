// The client before a node with TLS and access control: what it trusts, how its credential reaches requests and streams, and what it may not.
// @module-tag long
import { Agent, fetch as fetchOf } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { WebSocket } from "ws";
import {
  type ClientOptions,
  type Fetch,
  Forbidden,
  SagaClient,
  type SocketClass,
  Unauthorized,
  Unreachable,
} from "../../../src/sdk/client/index.js";
import { type Locked, openLocked, TENANT } from "../../cluster/access-rig.js";
import { NAMES, ReplacedFiles } from "../../cluster/tls-rig.js";
import { createAuthority, describeWithOpenssl } from "../../harness/certificates.js";

const WAIT = {
  ...{ id: "wait", name: "wait", start: "wait" },
  steps: [{ id: "wait", type: "wait_for_signal", signal_name: "go" }],
};

describeWithOpenssl("behind TLS and access control, the client", () => {
  let locked: Locked;
  let ca: string;
  let agent: Agent;
  let trusting: Pick<ClientOptions, "url" | "fetch" | "webSocket">;
  beforeAll(async () => {
    const authority = createAuthority();
    ca = authority.ca;
    const files = new ReplacedFiles();
    files.hold(authority.issue(NAMES));
    locked = await openLocked(files.settings);
    agent = new Agent({ connect: { ca } });
    const fetch = ((url, init) => fetchOf(url, { ...init, dispatcher: agent })) as Fetch;
    class Trusting extends WebSocket {
      constructor(url: string, protocols: string[]) {
        super(url, protocols, { ca });
      }
    }
    trusting = {
      url: `https://127.0.0.1:${locked.node.httpPort}`,
      fetch,
      webSocket: Trusting as unknown as SocketClass,
    };
    await client("author").workflows.publish(WAIT);
  });
  afterAll(async () => {
    await agent?.close();
    await locked?.stop();
  });
  const client = (role: "author" | "operator" | "viewer", more: Partial<ClientOptions> = {}) =>
    new SagaClient({ ...trusting, token: locked.bearer("JWT", role, TENANT), ...more });

  it.each([
    ["a WebSocket", {}],
    ["requests that wait", { webSocket: false as const }],
  ])("starts, watches and signals with its token, by %s", async (_name, by) => {
    for (const kind of ["JWT", "API key"] as const) {
      let asked = 0;
      const token = async () => {
        asked++;
        return locked.bearer(kind, "operator", TENANT);
      };
      const saga = client("operator", { token, ...by });
      const run = await saga.start("wait");
      const seen: number[] = [];
      for await (const event of run.watch()) {
        seen.push(event.seq);
        if (event.to_state === "paused") await run.signal("go", { by: "ann" });
      }
      expect(seen).toEqual(seen.map((_, index) => index + 1));
      expect(await run.get()).toMatchObject({ state: "succeeded", tenant_id: TENANT });
      expect((await saga.whoAmI()).roles).toEqual(["operator"]);
      expect(asked).toBeGreaterThan(4);
    }
  });

  it("is refused by name: without a credential, with a false one, and with one that may not", async () => {
    await expect(client("viewer").start("wait")).rejects.toThrow(Forbidden);
    await expect(client("viewer", { token: undefined }).runs.counts()).rejects.toThrow(Unauthorized);
    const wrong = client("viewer", { token: "saga_no_key" });
    await expect(wrong.runs.counts()).rejects.toThrow(Unauthorized);
    const run = await client("operator").start("wait");
    await expect(wrong.run(run.id).watch().next()).rejects.toThrow(Unauthorized);
    await run.terminate({ reason: "over" });
  });

  it("speaks to no server whose certificate it does not trust, and does not try again", async () => {
    const { fetch: _ours, ...plain } = trusting;
    const began = performance.now();
    const error = await new SagaClient({ ...plain, token: "saga_key" }).runs.counts().catch((thrown: Error) => thrown);
    expect(error).toBeInstanceOf(Unreachable);
    expect(String(error)).toMatch(/CERT|SIGNATURE/);
    expect(performance.now() - began).toBeLessThan(20_000);
  });
});
