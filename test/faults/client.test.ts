// The client of the fault suites holds every answer against the OpenAPI document, from a server that answers what it is told to.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Undocumented } from "../api/documented.js";
import { Client } from "./client.js";

const COUNTS = { success_rate_24h: 0.5, last_run_at: null, in_flight: 1 };

let server: Server;
let asked: number;
let answer: { status: number; type?: string; body: object };

beforeAll(async () => {
  server = createServer((_, response) => {
    asked++;
    const { status, type = "application/json; charset=utf-8", body } = answer;
    response.writeHead(status, { "content-type": type }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});
beforeEach(() => {
  asked = 0;
});

const client = () => new Client(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
const stats = (one: Client) => one.insist("GET", "/workflows/order/stats");

describe("the client", () => {
  it("takes an answer that the document has", async () => {
    answer = { status: 200, body: COUNTS };
    expect(await stats(client())).toEqual({ status: 200, body: COUNTS });
  });

  it.each([
    ["a member", { status: 200, body: { ...COUNTS, surprise: 1 } }],
    ["a missing member", { status: 200, body: {} }],
    ["a status", { status: 418, body: COUNTS }],
    ["a content type", { status: 200, type: "text/plain", body: COUNTS }],
  ])("fails at once because of %s that the document does not have, and at every later answer", async (_, given) => {
    const one = client();
    answer = given;
    await expect(stats(one)).rejects.toThrow(Undocumented);
    expect(asked).toBe(1);
    answer = { status: 200, body: COUNTS };
    await expect(one.ask("GET", "/workflows/order/stats")).rejects.toThrow(Undocumented);
    expect(asked).toBe(1);
  });
});
