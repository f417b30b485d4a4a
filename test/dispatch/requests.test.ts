// Requests of the service's own against a real server: what is sent, what an answer becomes, what is known of one that never
// came, and the bounds of it all.
import { createServer, type Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Dispatch, HttpRequest, RunCommand } from "../../machines/index.js";
import { overloaded } from "../../src/errors.js";
import { uuidv7 } from "../../src/ids.js";
import type { FairScheduler } from "../../src/work/fair-scheduler.js";
import { until } from "../harness/until.js";
import { dispatchOf, heldScheduler, openNode, type RequestNode, Site, secretsOf } from "./requests-rig.js";
import { FakeRuns } from "./rig.js";

let site: Site;
const nodes: RequestNode[] = [];
const sites: Site[] = [];

beforeEach(async () => {
  site = await openSite();
});
afterEach(async () => {
  for (const node of nodes.splice(0)) await node.dispatcher.stop(0);
  for (const one of sites.splice(0)) await one.close();
});

async function openSite(): Promise<Site> {
  const opened = await Site.open();
  sites.push(opened);
  return opened;
}

function open(options: Parameters<typeof openNode>[0] = {}): RequestNode {
  const node = openNode(options);
  nodes.push(node);
  return node;
}

/** A busy machine may hold up a request for a moment on its way. */
const soon = () => Date.now() + 2_000;
/** How long a redirect takes: six of them are longer than `soon`. */
const REDIRECTS_MS = 500;

type Asking = Partial<HttpRequest> & { url?: string };
type Failure = Extract<RunCommand, { type: "failure" }>;

async function ask(request: Asking = {}, more: Partial<Dispatch> = {}, node = open()): Promise<RunCommand> {
  const dispatch = node.request({ url: site.url, ...request }, more);
  return until(() => node.outcome(dispatch), { what: "an outcome" });
}

async function failure(request: Asking = {}, more: Partial<Dispatch> = {}, node = open()): Promise<Partial<Failure>> {
  const command = await ask(request, more, node);
  if (command.type !== "failure") throw new Error(`it came to a ${command.type}`);
  const { type, actor, dispatchId, arrivedAt, ...rest } = command;
  expect([type, actor, typeof dispatchId, typeof arrivedAt]).toEqual(["failure", "coordinator", "string", "number"]);
  return rest;
}

async function output(request: Asking = {}): Promise<unknown> {
  const command = await ask(request);
  if (command.type !== "result") throw new Error(JSON.stringify(command));
  return command.result;
}

const base64 = (latin1: string) => Buffer.from(latin1, "latin1").toString("base64");

describe("a request", () => {
  it("carries method, query, headers, body and the step's key", async () => {
    await output({ url: `${site.url}/a%20b?c=d`, method: "PATCH", headers: { "x-id": "7" }, body: { n: [1, "ü"] } });
    expect(site.asked).toMatchObject([
      {
        ...{ method: "PATCH", path: "/a%20b?c=d", body: '{"n":[1,"ü"]}' },
        headers: {
          ...{ "x-id": "7", "idempotency-key": "run:step:1", "content-type": "application/json" },
          ...{ "content-length": "14", "user-agent": "saga-orchestrator", host: `127.0.0.1:${site.port}` },
        },
      },
    ]);
  });

  it.each([
    ["text as it is", "a=b", {}, "a=b", "text/plain; charset=utf-8"],
    ["null as JSON", null, {}, "null", "application/json"],
    ["what the headers say that it is", "a=b", { "content-type": "text/csv" }, "a=b", "text/csv"],
    ["nothing as nothing", undefined, {}, "", undefined],
  ])("sends %s", async (_, body, headers, text, type) => {
    await output({ method: "POST", headers, ...(body !== undefined && { body }) });
    expect([site.asked[0]?.body, site.asked[0]?.headers["content-type"]]).toEqual([text, type]);
  });

  it.each(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])("may be a %s", async (method) => {
    expect(await output({ method })).toMatchObject({ status: 200 });
    expect(site.asked[0]?.method).toBe(method);
  });

  it("adds its secret, and says it nowhere else", async () => {
    const key = { header: "x-api-key", line: "s3cr3t-value", value: "s3cr3t-value" };
    const node = open({
      secrets: secretsOf({ key, token: { header: "authorization", line: "Bearer tok3n", value: "tok3n" } }),
    });
    site.answer = (_, response) => response.writeHead(500).end();
    const outcomes = [
      await ask({ secretRef: "key", headers: { "x-api-key": "mine" } }, {}, node),
      await ask({ secretRef: "token" }, {}, node),
    ];
    expect(site.asked.map(({ headers }) => [headers["x-api-key"], headers.authorization])).toEqual([
      ["s3cr3t-value", undefined],
      [undefined, "Bearer tok3n"],
    ]);
    expect(JSON.stringify([outcomes, node.runs.told, node.logged])).not.toMatch(/s3cr3t|tok3n/);
  });

  it("is not made with a secret that is not for its host, or not for requests", async () => {
    const secret = { header: "authorization", line: "Bearer tok3n", value: "tok3n" };
    const elsewhere = { ...secret, hosts: ["api.example"] };
    const signing = { ...secret, use: "signing" as const };
    const node = open({ secrets: secretsOf({ elsewhere, signing, here: { ...secret, hosts: ["127.0.0.1"] } }) });
    const before = site.asked.length;
    expect(await failure({ secretRef: "elsewhere" }, {}, node)).toMatchObject({
      ...{ code: "http_network", message: "the secret elsewhere may not be sent to 127.0.0.1" },
      ...{ retryable: false, outcomeUnknown: false },
    });
    expect(await failure({ secretRef: "signing" }, {}, node)).toMatchObject({
      message: "the secret signing is for signing only",
    });
    expect(site.asked).toHaveLength(before);
    await ask({ secretRef: "here" }, {}, node);
    expect(site.asked.at(-1)?.headers.authorization).toBe("Bearer tok3n");
  });

  it("is not made with a secret that is not its run's: for the run there is none", async () => {
    const [mine, other] = [uuidv7(), uuidv7()];
    const key = { header: "x-api-key", line: "s3cr3t-value-of-16", value: "s3cr3t-value-of-16", tenants: [mine] };
    const secrets = secretsOf({ key, ours: { ...key, tenants: undefined, ofPlatform: true } });
    const used: unknown[] = [];
    const secretUsed = (name: string, { workflowId, tenantId }: { workflowId: string; tenantId: string | null }) =>
      used.push([name, workflowId, tenantId]);
    const of = (tenantId: string, definitionOwner: string | null) =>
      open({ secrets, userOf: async () => ({ tenantId, definitionOwner, workflowId: "orders" }), secretUsed });
    const before = site.asked.length;
    for (const secretRef of ["key", "ours", "none"])
      expect(await failure({ secretRef }, {}, of(other, other))).toEqual(
        expect.objectContaining({ code: "not_found", message: `there is no secret ${secretRef}`, retryable: false }),
      );
    const away = open({ secrets, userOf: () => Promise.reject(new Error("the store is away")) });
    expect(await failure({ secretRef: "key" }, {}, away)).toMatchObject({ retryable: true, outcomeUnknown: false });
    expect(site.asked).toHaveLength(before);
    await ask({ secretRef: "key" }, {}, of(mine, null));
    await ask({ secretRef: "ours" }, {}, of(other, null));
    expect(site.asked.slice(before).map(({ headers }) => headers["x-api-key"])).toEqual([key.value, key.value]);
    expect(used).toEqual([
      ["key", "orders", mine],
      ["ours", "orders", other],
    ]);
  });

  it("is not made with a secret over http beyond loopback", async () => {
    const key = { header: "x-api-key", line: "s3cr3t-value-of-16", value: "s3cr3t-value-of-16" };
    const node = open({ secrets: secretsOf({ key }) });
    const to = site.url.replace("127.0.0.1", "shop.example");
    expect(await failure({ url: to, secretRef: "key" }, {}, node)).toMatchObject({
      code: "http_network",
      message: "the secret key is used with https only, or with http on loopback, and not with http to shop.example",
      ...{ retryable: false, outcomeUnknown: false },
    });
    expect(site.asked).toEqual([]);
  });

  it("brings back no secret that its response contains", async () => {
    const token = { header: "authorization", line: "Bearer tok3n/1", value: "tok3n/1" };
    const other = { header: "x-key", line: "an0ther-one", value: "an0ther-one" };
    const node = open({ secrets: secretsOf({ token, other }) });
    site.answer = ({ headers }, response) => {
      // As an echo service has it; JSON may escape a slash.
      const echo = JSON.stringify({ headers, more: "an0ther-one" }).replaceAll("/", "\\/");
      response.writeHead(200, { "content-type": "application/json", "x-echo": headers.authorization }).end(echo);
    };
    const command = await ask({ secretRef: "token" }, {}, node);
    const text = JSON.stringify(command);
    expect(text).toContain("Bearer [secret]");
    expect(text).not.toMatch(/tok3n|an0ther/);
  });

  it.each([
    ["bytes that are no text", Buffer.from("\xffs3cr3t-value\0", "latin1"), { base64: base64("\xff[secret]\0") }],
    ["a number", Buffer.from('{"pin":900719925}'), '{"pin":[secret]}'],
  ])("brings back no secret that its response contains in %s", async (_, echo, body) => {
    const secret = (value: string) => ({ header: "x-key", line: value, value });
    const node = open({ secrets: secretsOf({ key: secret("s3cr3t-value"), pin: secret("900719925") }) });
    site.answer = (_, response) => response.writeHead(200, { "content-type": "application/json" }).end(echo);
    expect(await ask({ secretRef: "key" }, {}, node)).toMatchObject({ type: "result", result: { body } });
  });

  it("is not made without the secret that it names", async () => {
    expect(await failure({ secretRef: "none" })).toEqual({
      ...{ code: "not_found", message: "there is no secret none" },
      ...{ retryable: false, outcomeUnknown: false },
    });
    expect(site.asked).toEqual([]);
  });
});

describe("an answer", () => {
  const text = (type: string, body: string | Buffer) => {
    site.answer = (_, response) => response.writeHead(200, type === "" ? {} : { "content-type": type }).end(body);
    return output().then((seen) => (seen as { body: unknown }).body);
  };

  it("is status, headers and body", async () => {
    site.answer = (_, response) =>
      response
        .writeHead(
          201,
          [
            ["X-Id", "7"],
            ["X-Id", "8"],
            ["Set-Cookie", "a=b"],
            ["Content-Type", "application/json"],
          ].flat(),
        )
        .end('{"ok":true}');
    expect(await output()).toMatchObject({
      ...{ status: 201, body: { ok: true } },
      headers: { "x-id": "7, 8", "set-cookie": "a=b", "content-type": "application/json" },
    });
  });

  it("has a body that is JSON, text, Base64 or null", async () => {
    expect(await text("application/json; charset=utf-8", '{"a":1}')).toEqual({ a: 1 });
    expect(await text("application/problem+json", "[1]")).toEqual([1]);
    expect(await text("text/json", "7")).toBe(7);
    expect(await text("application/json", "{broken")).toBe("{broken");
    expect(await text("text/plain", "grün")).toBe("grün");
    expect(await text("", "plain")).toBe("plain");
    expect(await text("text/plain; charset=iso-8859-1", Buffer.from("gr\u00fcn", "latin1"))).toBe("grün");
    expect(await text("image/png", Buffer.from([0x89, 0x50, 0xff]))).toEqual({ base64: "iVD/" });
    expect(await text("text/plain", Buffer.from("a\0b"))).toEqual({ base64: "YQBi" });
    expect(await text("text/plain; charset=nonsense", "grün")).toBe("grün");
    expect(await text("text/plain; charset=nonsense", Buffer.from([0xff]))).toEqual({ base64: "/w==" });
    expect(await text("application/gzip", gzipSync("a"))).toHaveProperty("base64");
    expect(await text("application/json", "")).toBe(null);
    expect(await text("application/json", "null")).toBe(null);
  });

  it.each(["utf8mb4", "nonsense", "utf-8", "UTF8", "iso-8859-1", "us-ascii", "utf-16", '"utf8mb4"'])(
    "that is JSON is JSON in UTF-8, also as charset=%s",
    async (charset) => {
      for (const type of ["application/json", "text/json", "application/problem+json"])
        expect(await text(`${type}; charset=${charset}`, '{"name":"Zoë 🎉"}')).toEqual({ name: "Zoë 🎉" });
    },
  );

  it("that is JSON is read in the charset that it names if it is no UTF-8", async () => {
    expect(await text("application/json; charset=iso-8859-1", Buffer.from('"gr\u00fcn"', "latin1"))).toBe("grün");
    expect(await text("application/json; charset=utf-16le", Buffer.from('"grün"', "utf16le"))).toBe("grün");
    const broken = Buffer.from('"gr\u00fcn"', "latin1");
    for (const charset of ["", "; charset=utf8mb4"])
      expect(await text(`application/json${charset}`, broken)).toEqual({ base64: broken.toString("base64") });
  });

  it("may begin with a byte order mark, which goes before any charset and is no part of the body", async () => {
    const marked = (mark: number[], body: Buffer) => Buffer.concat([Buffer.from(mark), body]);
    for (const type of [
      "application/json",
      "application/json; charset=utf8mb4",
      "application/json; charset=iso-8859-1",
    ]) {
      expect(await text(type, marked([0xef, 0xbb, 0xbf], Buffer.from('["ü"]')))).toEqual(["ü"]);
      expect(await text(type, marked([0xff, 0xfe], Buffer.from('["ü"]', "utf16le")))).toEqual(["ü"]);
      expect(await text(type, marked([0xfe, 0xff], Buffer.from('["ü"]', "utf16le").swap16()))).toEqual(["ü"]);
    }
    expect(await text("text/csv; charset=iso-8859-1", marked([0xef, 0xbb, 0xbf], Buffer.from("ü;1")))).toBe("ü;1");
    expect(await text("text/plain", marked([0xef, 0xbb, 0xbf], Buffer.from("")))).toBe("");
  });

  it("has headers in UTF-8 if they are valid in it, else in Latin-1", async () => {
    site.answer = (_, response) => {
      response.setHeader(
        "content-disposition",
        Buffer.from('attachment; filename="Rechnung für Zoë 🎉.pdf"').toString("latin1"),
      );
      response.setHeader("x-latin", "gr\u00fcn").end();
    };
    expect(await output()).toMatchObject({
      headers: { "content-disposition": 'attachment; filename="Rechnung für Zoë 🎉.pdf"', "x-latin": "grün" },
    });
  });

  it("has several cookies as a list, because a comma may be part of each", async () => {
    const cookies = ["a=b; Expires=Wed, 21 Oct 2026 07:28:00 GMT", "c=d; Path=/"];
    site.answer = (_, response) => response.writeHead(200, { "set-cookie": cookies, "x-id": ["7", "8"] }).end();
    expect(await output()).toMatchObject({ headers: { "set-cookie": cookies, "x-id": "7, 8" } });
    site.answer = (_, response) => response.writeHead(200, { "set-cookie": cookies.slice(0, 1) }).end();
    expect(await output()).toMatchObject({ headers: { "set-cookie": cookies[0] } });
  });

  it("is the one that follows the interim responses, and the request is made once", async () => {
    site.answer = (_, response) => {
      response.writeContinue();
      response.writeProcessing();
      response.end("final");
    };
    expect(await output({ method: "POST", body: "a" })).toMatchObject({ status: 200, body: "final" });
    expect(site.asked).toHaveLength(1);
  });

  it("is a success if its status is expected", async () => {
    site.answer = (_, response) => response.writeHead(404).end();
    expect(await output({ expectedStatus: ["2xx", 404] })).toMatchObject({ status: 404 });
    expect(await output({ expectedStatus: ["4xx"] })).toMatchObject({ status: 404 });
    expect(await failure({ expectedStatus: [405, "2xx", "5xx"] })).toMatchObject({ code: "http_404" });
  });

  it.each([
    [301, false, false],
    [400, false, false],
    [404, false, false],
    [408, true, false],
    [409, false, false],
    [425, true, false],
    [429, true, false],
    [500, true, true],
    [503, true, true],
    [599, true, true],
  ])("%i is retryable: %s, may have happened: %s", async (status, retryable, outcomeUnknown) => {
    site.answer = (_, response) => response.writeHead(status, { location: "/x" }).end("secret words");
    const message = `the server answered ${status}`;
    expect(await failure()).toEqual({ code: `http_${status}`, message, retryable, outcomeUnknown });
  });

  it("may say when to come again, in seconds or as a date", async () => {
    const wanted = async (value: string, status = 503) => {
      site.answer = (_, response) => response.writeHead(status, { "retry-after": value }).end();
      return (await failure()).retryAfterMs;
    };
    expect(await wanted("7")).toBe(7_000);
    expect(await wanted("0")).toBe(0);
    const inAMinute = (await wanted(new Date(Date.now() + 60_000).toUTCString(), 429)) ?? 0;
    expect([inAMinute > 50_000, inAMinute <= 60_000]).toEqual([true, true]);
    expect(await wanted(new Date(0).toUTCString())).toBe(0);
    expect(await wanted("soon")).toBeUndefined();
    expect(await wanted("7", 404)).toBeUndefined();
  });

  it("over the limit is cut off, told or found out, and may have happened", async () => {
    const limits = { outputBytes: 1_000 };
    const message = "the response of 127.0.0.1 is over 1000 bytes";
    const expected = { code: "limit_exceeded", message, retryable: false, outcomeUnknown: true };
    site.answer = (_, response) => response.writeHead(200, { "content-length": "1001" }).write("a");
    expect(await failure({}, {}, open({ limits }))).toEqual(expected);
    await until(() => site.cutOff === 1);
    // It never ends by itself.
    site.answer = (_, response) => {
      const more = () => response.write("a".repeat(100), () => !response.destroyed && setImmediate(more));
      more();
    };
    expect(await failure({}, {}, open({ limits }))).toEqual(expected);
    await until(() => site.cutOff === 2);
    site.answer = (_, response) => response.end("a".repeat(1_000));
    expect((await ask({}, {}, open({ limits }))).type).toBe("result");
  });

  it("without a body may say how long it would be", async () => {
    site.answer = (_, response) => response.writeHead(200, { "content-length": "5000000" }).end();
    expect(await output({ method: "HEAD" })).toMatchObject({ headers: { "content-length": "5000000" }, body: null });
  });

  it("that cannot be stored is a failure of what did happen", async () => {
    site.answer = (_, response) =>
      response.writeHead(200, { "content-type": "application/json" }).end('{"a":["\\u0000"]}');
    expect(await failure()).toEqual({
      ...{ code: "schema_mismatch", retryable: false, outcomeUnknown: true },
      message: "the response cannot be stored: body.a[0] contains U+0000",
    });
  });
});

describe("no answer", () => {
  const rude = async (greet: (socket: Socket) => void) => {
    const server = createServer((socket) => greet(socket.on("error", () => {})));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    return { url: `http://127.0.0.1:${port}`, close: () => new Promise((resolve) => server.close(resolve)) };
  };

  it("from nobody: it did not happen", async () => {
    const gone = await rude(() => {});
    await gone.close();
    expect(await failure({ url: gone.url })).toEqual({
      ...{ code: "http_network", message: "127.0.0.1: the connection failed (ECONNREFUSED)" },
      ...{ retryable: true, outcomeUnknown: false },
    });
  });

  it("from a name that is none: it did not happen", async () => {
    expect(await failure({ url: "http://nowhere.invalid/a?token=b" })).toMatchObject({
      ...{ code: "http_network", retryable: true, outcomeUnknown: false },
      message: expect.stringMatching(/^nowhere\.invalid: the connection failed \((ENOTFOUND|EAI_AGAIN)\)$/),
    });
  });

  it("from an address that may not be reached: it did not happen, and is not tried again", async () => {
    expect(await failure({ url: "http://127.0.0.2:1/" })).toEqual({
      ...{ code: "http_network", message: "127.0.0.2 is not an allowed address" },
      ...{ retryable: false, outcomeUnknown: false },
    });
  });

  it.each([
    ["a connection that is reset", (socket: Socket) => socket.once("data", () => socket.resetAndDestroy())],
    ["a connection that is closed", (socket: Socket) => socket.once("data", () => socket.end())],
    [
      "half a response",
      (socket: Socket) => socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\na")),
    ],
    ["nonsense", (socket: Socket) => socket.once("data", () => socket.end("nonsense\r\n\r\n"))],
  ])("but %s: it may have happened", async (_, greet) => {
    const server = await rude(greet);
    expect(await failure({ url: server.url, method: "POST", body: "a" })).toMatchObject({
      ...{ code: "http_network", retryable: true, outcomeUnknown: true },
    });
    await server.close();
  });

  it("in time: it is cut off, and may have happened", async () => {
    site.answer = () => {};
    expect(await failure({}, { deadlineAt: soon() })).toEqual({
      ...{ code: "timeout", message: "the server did not answer in time", retryable: true, outcomeUnknown: true },
    });
    await until(() => site.cutOff === 1);
  });

  it("in time, though a byte comes now and then", async () => {
    site.answer = (_, response) => {
      const timer = setInterval(() => response.write("a"), 10);
      response.on("close", () => clearInterval(timer));
    };
    expect(await failure({}, { deadlineAt: soon() })).toMatchObject({ code: "timeout" });
  });

  it("to what is past its deadline: it is not made", async () => {
    const node = open();
    const dispatch = node.request({ url: site.url }, { deadlineAt: Date.now() - 1 });
    expect([node.dispatcher.holds(dispatch.dispatchId), site.asked]).toEqual([false, []]);
  });
});

describe("redirects", () => {
  const to = (location: string, status = 302) => {
    site.answer = ({ path }, response) =>
      path === "/" ? response.writeHead(status, { location }).end() : response.end("there");
  };

  it("are followed if asked for, relative ones too", async () => {
    to("/there?a=b");
    expect(await output({ followRedirects: true })).toMatchObject({ status: 200, body: "there" });
    expect(site.asked.map(({ path }) => path)).toEqual(["/", "/there?a=b"]);
    expect(await failure()).toMatchObject({ code: "http_302", retryable: false });
    expect(await output({ expectedStatus: ["3xx"] })).toMatchObject({ status: 302 });
  });

  it.each([
    ["UTF-8", "/grün/Zoë 🎉?q=ü", "/gr%C3%BCn/Zo%C3%AB%20%F0%9F%8E%89?q=%C3%BC"],
    ["UTF-8 in part escaped", "/gr%C3%BCn/ü#ü", "/gr%C3%BCn/%C3%BC"],
    ["Chinese", "/文件?名=值", "/%E6%96%87%E4%BB%B6?%E5%90%8D=%E5%80%BC"],
  ])("lead to the path that their bytes are: %s", async (_, location, path) => {
    to(Buffer.from(location).toString("latin1"));
    expect(await output({ followRedirects: true })).toMatchObject({ status: 200 });
    expect(site.asked.map((asked) => asked.path)).toEqual(["/", path]);
  });

  it("lead to the path that their bytes are, also if these are no UTF-8", async () => {
    to("/gr\u00fcn");
    await output({ followRedirects: true });
    expect(site.asked[1]?.path).toBe("/gr%FCn");
  });

  it.each([
    [301, "POST", "GET", ""],
    [302, "POST", "GET", ""],
    [302, "PUT", "PUT", '{"n":1}'],
    [303, "PUT", "GET", ""],
    [307, "POST", "POST", '{"n":1}'],
    [308, "POST", "POST", '{"n":1}'],
  ])("%i of a %s is a %s with body %j", async (status, method, then, body) => {
    to("/there", status);
    await output({ followRedirects: true, method, body: { n: 1 } });
    expect([site.asked[1]?.method, site.asked[1]?.body]).toEqual([then, body]);
    expect(site.asked[1]?.headers["content-type"]).toBe(body === "" ? undefined : "application/json");
  });

  it("to another origin take no credentials along", async () => {
    const other = await openSite();
    to(`http://localhost:${other.port}/there`);
    const node = open({ secrets: secretsOf({ key: { header: "x-api-key", line: "s3cr3t", value: "s3cr3t" } }) });
    const headers = { authorization: "Basic eA==", cookie: "a=b", "x-mine": "c", accept: "text/csv" };
    await ask({ followRedirects: true, secretRef: "key", headers }, {}, node);
    const [first, second] = [site.asked[0]?.headers, other.asked[0]?.headers];
    expect(first).toMatchObject({ ...headers, "x-api-key": "s3cr3t" });
    expect(Object.keys(second ?? {}).sort()).toEqual(
      ["accept", "accept-encoding", "connection", "host", "idempotency-key", "user-agent"].sort(),
    );
  });

  it("to the same origin keep them", async () => {
    to("/there");
    await output({ followRedirects: true, headers: { authorization: "Basic eA==" } });
    expect(site.asked[1]?.headers.authorization).toBe("Basic eA==");
  });

  it("end after five: the sixth is the answer", async () => {
    site.answer = (_, response) => response.writeHead(302, { location: "/" }).end();
    expect(await failure({ followRedirects: true })).toMatchObject({ code: "http_302" });
    expect(site.asked.length).toBe(6);
  });

  it("share the attempt's time", async () => {
    site.answer = (_, response) => setTimeout(() => response.writeHead(302, { location: "/" }).end(), REDIRECTS_MS);
    const command = await failure({ followRedirects: true }, { deadlineAt: soon() });
    expect(command).toMatchObject({ code: "timeout" });
    expect(site.asked.length).toBeLessThan(6);
  });
});

describe("a request that is cut off", () => {
  it("by a cancel: its run hears at once that it may have happened", async () => {
    const node = open();
    site.answer = () => {};
    const dispatch = node.request({ url: site.url });
    await until(() => site.asked.length === 1);
    node.dispatcher.cancel(dispatch.dispatchId, "enough");
    expect(await until(() => node.outcome(dispatch))).toMatchObject({
      ...{ type: "failure", code: "cancelled", retryable: false, outcomeUnknown: true },
    });
    await until(() => site.cutOff === 1);
  });

  it("because nobody wants to know any more: nobody is told", async () => {
    const node = open();
    site.answer = () => {};
    const dispatch = node.request({ url: site.url });
    await until(() => site.asked.length === 1);
    node.dispatcher.resolved(dispatch.dispatchId);
    await until(() => site.cutOff === 1 && node.dispatcher.inFlight === 0);
    expect([node.outcome(dispatch), node.dispatcher.holds(dispatch.dispatchId)]).toEqual([undefined, false]);
  });

  it("by a stop that cannot wait: its run is told nothing, and its next owner makes it again", async () => {
    const node = open();
    site.answer = () => {};
    const dispatch = node.request({ url: site.url });
    await until(() => site.asked.length === 1);
    await node.dispatcher.stop(50);
    expect(node.outcome(dispatch)).toBeUndefined();
    expect(node.dispatcher.reserve(dispatch.dispatchId, dispatch.call)).toBeUndefined();
  });

  it("not by a stop that can wait", async () => {
    const node = open();
    let finish = () => {};
    site.answer = (_, response) => {
      finish = () => response.end();
    };
    const dispatch = node.request({ url: site.url });
    await until(() => site.asked.length === 1);
    const stopped = node.dispatcher.stop(5_000);
    finish();
    await stopped;
    expect(node.outcome(dispatch)?.type).toBe("result");
  });
});

describe("an outcome", () => {
  it("is told until it is recorded, the same command each time", async () => {
    const runs = new FakeRuns();
    let refusals = 3;
    runs.reply = () => {
      refusals--;
      if (refusals === 2) throw overloaded("not now");
      return refusals >= 0 ? { type: "refused", reason: "quarantine" } : { type: "report", stale: false };
    };
    const node = open({ runs });
    const dispatch = node.request({ url: site.url });
    await until(() => !node.dispatcher.holds(dispatch.dispatchId));
    expect(runs.told.length).toBe(4);
    expect(new Set(runs.told.map(({ options }) => options?.id)).size).toBe(1);
    expect(site.asked.length).toBe(1);
  });

  it("is told no longer than the run listens", async () => {
    const runs = new FakeRuns();
    runs.reply = () => ({ type: "refused", reason: "quarantine" });
    const node = open({ runs });
    const dispatch = node.request({ url: site.url }, { deadlineAt: soon() });
    await until(() => !node.dispatcher.holds(dispatch.dispatchId));
    expect(runs.told.length).toBeGreaterThan(1);
  });
});

describe("a request whose first owner is gone", () => {
  it("is made again under the same key, and what fails then may have happened before", async () => {
    const node = open();
    site.answer = (_, response) => response.writeHead(404).end();
    const dispatch = dispatchOf({ url: site.url });
    node.recover(dispatch);
    node.recover(dispatch);
    expect(await until(() => node.outcome(dispatch))).toMatchObject({ code: "http_404", outcomeUnknown: true });
    expect(site.asked.map(({ headers }) => headers["idempotency-key"])).toEqual(["run:step:1"]);
  });
});

describe("slots", () => {
  const held: (() => void)[] = [];
  const hold = () => {
    held.length = 0;
    site.answer = (_, response) => held.push(() => response.end());
  };
  const letGo = (count = held.length) => {
    for (const go of held.splice(0, count)) go();
  };

  it("are so many in all and for a host; who queues gets the next", async () => {
    hold();
    const node = open({ limits: { requests: 3, requestsPerHost: 2 } });
    const elsewhere = `http://localhost:${site.port}`;
    const reserve = (url: string) => {
      const dispatch = dispatchOf({ url });
      return { dispatch, free: node.dispatcher.reserve(dispatch.dispatchId, dispatch.call) !== undefined };
    };
    const [first, second, third] = [reserve(site.url), reserve(site.url), reserve(site.url)];
    expect([first.free, second.free, third.free]).toEqual([true, true, false]);
    const other = reserve(elsewhere);
    expect([other.free, reserve(elsewhere).free]).toEqual([true, false]);
    const { runId, dispatchId, call } = third.dispatch;
    node.dispatcher.enqueue(runId, dispatchId, call);
    for (const { dispatch } of [first, second, other]) node.dispatcher.send(dispatch);
    await until(() => held.length === 3);
    expect([node.dispatcher.inFlight, node.dispatcher.queued, node.runs.of("offer")]).toEqual([3, 1, []]);
    letGo();
    await until(() => node.runs.of("offer").length === 1);
    expect(node.runs.of("offer")).toEqual([{ type: "offer", dispatchId }]);
  });

  it("come back from a reservation that nothing follows, and from every end of a request", async () => {
    const node = open({ limits: { requests: 1, reservationMs: 30 } });
    const [lapsing, next] = [dispatchOf({ url: site.url }), dispatchOf({ url: site.url })];
    const take = ({ dispatchId, call }: Dispatch) => node.dispatcher.reserve(dispatchId, call) !== undefined;
    expect([take(lapsing), take(lapsing), take(next)]).toEqual([true, true, false]);
    await until(() => take(next));
    node.dispatcher.send(next);
    await until(() => node.outcome(next));
    site.answer = (_, response) => response.destroy();
    for (let nth = 0; nth < 3; nth++) {
      const dispatch = dispatchOf({ url: site.url });
      await until(() => take(dispatch));
      node.dispatcher.send(dispatch);
      await until(() => node.outcome(dispatch));
    }
    const last = dispatchOf({ url: site.url });
    await until(() => take(last));
  });

  it("are for what was recovered before what is new; what is cancelled needs none", async () => {
    hold();
    const node = open({ limits: { requests: 1 } });
    node.request({ url: site.url });
    const [recovered, cancelled, fresh] = [
      dispatchOf({ url: site.url }),
      dispatchOf({ url: site.url }),
      dispatchOf({ url: site.url }),
    ];
    node.dispatcher.enqueue(fresh.runId, fresh.dispatchId, fresh.call);
    node.recover(cancelled);
    node.recover(recovered);
    node.dispatcher.cancel(cancelled.dispatchId, "enough");
    expect(await until(() => node.outcome(cancelled))).toMatchObject({ code: "cancelled", outcomeUnknown: true });
    await until(() => held.length === 1);
    letGo();
    await until(() => held.length === 1);
    expect([site.asked.length, node.runs.of("offer")]).toEqual([2, []]);
    letGo();
    await until(() => node.runs.of("offer").length === 1);
    expect(node.outcome(recovered)?.type).toBe("result");
  });

  it("are not needed by a cancel, and a cancel that comes twice is reported once", async () => {
    hold();
    const runs = new FakeRuns();
    let record: () => void = () => {};
    runs.reply = () => new Promise((resolve) => (record = () => resolve({ type: "report", stale: false })));
    const node = open({ limits: { requests: 1 }, runs });
    node.request({ url: site.url });
    const cancelled = dispatchOf({ url: site.url });
    node.recover(cancelled);
    node.dispatcher.cancel(cancelled.dispatchId, "enough");
    node.dispatcher.cancel(cancelled.dispatchId, "enough");
    expect(node.dispatcher.inFlight).toBe(2);
    await until(() => runs.of("failure").length > 0);
    record();
    await until(() => !node.dispatcher.holds(cancelled.dispatchId));
    expect(runs.of("failure")).toHaveLength(1);
  });

  it("that hanging servers hold are their own workflow's: another workflow still gets some", async () => {
    const node = open({ limits: { requests: 20, requestsPerHost: 5 } });
    const take = (workflowId: string, port: number) => {
      const { dispatchId, call } = dispatchOf({ url: `http://127.0.0.1:${port}` });
      return node.dispatcher.reserve(dispatchId, { ...call, workflowId }) !== undefined;
    };
    const taken = (workflowId: string) =>
      Array.from({ length: 100 }, (_, nth) => take(workflowId, 1_000 + (nth % 10))).filter(Boolean).length;
    expect(taken("hangs")).toBe(10);
    expect(taken("hangs, too")).toBe(5);
    expect(taken("healthy")).toBeGreaterThan(0);
  });

  it("of one host go to its workflows in turn", async () => {
    hold();
    const node = open({ limits: { requests: 4, requestsPerHost: 4 } });
    const queue = (workflowId: string) => {
      const dispatch = dispatchOf({ url: site.url });
      node.dispatcher.enqueue(dispatch.runId, dispatch.dispatchId, { ...dispatch.call, workflowId });
      return dispatch.runId;
    };
    const many = Array.from({ length: 6 }, () => queue("many"));
    const other = queue("other");
    await until(() => node.runs.of("offer").length >= 3);
    const offered = node.runs.told.map(({ runId }) => runId);
    expect(offered).toContain(other);
    expect(offered.filter((runId) => many.some((id) => id === runId))).toHaveLength(2);
  });
});

describe("an answer", () => {
  it("is read in a turn of the loop, and its run goes on in another", async () => {
    const parties: string[] = [];
    const scheduler: Pick<FairScheduler, "compute"> = {
      compute: async (party, piece) => {
        parties.push(party);
        return piece();
      },
    };
    await ask({}, {}, open({ scheduler }));
    const { origin } = new URL(site.url);
    expect(parties).toEqual([origin, origin]);
  });

  it("is in time by the moment it arrived, however long it waits for its turn", async () => {
    const { scheduler, came, release } = heldScheduler();
    const command = ask({}, {}, open({ scheduler }));
    const arrived = await until(came, { what: "an answer that waits" });
    await until(() => Date.now() > arrived, { what: "a later moment" });
    release();
    const { arrivedAt } = (await command) as { arrivedAt: number };
    expect(arrivedAt).toBeLessThanOrEqual(arrived);
  });
});
