// The files of the console over HTTP: how they are sent, what a browser may do with them, and what is not there. The pages themselves
// are tested in test/console, in a browser.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { otherApi, useRig } from "./rig.js";
import { ask } from "./wire.js";

const FOLDER = join(resolve(import.meta.dirname, "../.."), "dist", "console");
const rig = useRig();
let app: Awaited<ReturnType<typeof otherApi>>;
let port: number;
/** One that was compressed by the build. */
let script: string;

beforeAll(async () => {
  app = await otherApi(rig, {}, { config: { console: { folder: FOLDER } } as never });
  await app.listen({ port: 0, host: "127.0.0.1" });
  port = (app.server.address() as AddressInfo).port;
  script = readdirSync(join(FOLDER, "assets")).find((name) => /^console-\w+\.js$/.test(name)) ?? "";
  expect(existsSync(join(FOLDER, "assets", `${script}.gz`))).toBe(true);
});
afterAll(() => app.close());

const get = (url: string, headers: Record<string, string> = {}, method: "GET" | "HEAD" = "GET") =>
  app.inject({ method, url, headers: { host: "localhost", ...headers } });

describe("the console", () => {
  it("is where `/` leads", async () => {
    const { statusCode, headers } = await get("/");
    expect([statusCode, headers.location]).toEqual([302, "/console"]);
  });

  it("has a policy that allows nothing but this service, and no inline script or style", async () => {
    for (const path of ["/console", "/console/runs", `/console/assets/${script}`]) {
      const { "content-security-policy": policy } = (await get(path)).headers;
      expect(String(policy).split("; ")).toEqual([
        ...[
          "default-src 'none'",
          "script-src 'self'",
          "style-src 'self'",
          "img-src 'self' data:",
          "connect-src 'self'",
        ],
        ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
      ]);
    }
    expect((await get("/console")).body).not.toMatch(/<script(?![^>]* src=)|<style| style="| on\w+="|https?:\/\//);
  });

  it("gives its page for every address within it, and has it asked for again each time", async () => {
    const page = readFileSync(join(FOLDER, "index.html"), "utf8");
    for (const path of ["", "/", "/runs", "/runs/a%20b?step=c", "/workflows/order:eu", "/no/such/page"]) {
      const { statusCode, headers, body } = await get(`/console${path}`);
      expect([path, statusCode, headers["content-type"], body]).toEqual([
        path,
        200,
        expect.stringMatching("html"),
        page,
      ]);
      expect(headers["cache-control"]).toBe("no-cache");
      expect((await get(`/console${path}`, { "if-none-match": String(headers.etag) })).statusCode).toBe(304);
    }
  });

  it("says in its page that the service has an inspector, only where it has one", async () => {
    const page = readFileSync(join(FOLDER, "index.html"), "utf8");
    const withOne = await otherApi(
      rig,
      {},
      { config: { console: { folder: FOLDER }, inspector: { ui: "https://i" } } },
    );
    onTestFinished(() => withOne.close());
    const { body, headers } = await withOne.inject({ url: "/console", headers: { host: "localhost" } });
    expect(body).toBe(page.replace('<div id="console"', '<div id="console" data-inspector'));
    expect(body).not.toBe(page);
    expect(headers.etag).not.toBe((await get("/console")).headers.etag);
  });

  it("says in its page how to log in, only where access is on", async () => {
    const page = readFileSync(join(FOLDER, "index.html"), "utf8");
    const said = async (config: object, deps: object) => {
      const locked = await otherApi(rig, {}, { config: { console: { folder: FOLDER }, ...config } as never, ...deps });
      onTestFinished(() => locked.close());
      const { body } = await locked.inject({ url: "/console", headers: { host: "localhost" } });
      return body.replace(page.split('<div id="console"')[0] ?? "", "").split(">")[0];
    };
    const [verifier, login] = [{ verify: () => Promise.reject(new Error("nobody")) }, {}];
    const keys = { credentials: ["api_key"] };
    expect(await said({}, {})).toBe('<div id="console"');
    expect(await said(keys, { verifier })).toBe('<div id="console" data-login="key"');
    expect(await said(keys, { verifier, login })).toBe('<div id="console" data-login="key oidc"');
    expect(await said({ credentials: ["jwt"] }, { verifier })).toBe('<div id="console" data-login=""');
  });

  it("has files that a browser keeps, compressed for those who take that", async () => {
    const plain = await get(`/console/assets/${script}`);
    const packed = await get(`/console/assets/${script}`, { "accept-encoding": "gzip, deflate" });
    expect(plain.headers).toMatchObject({
      "cache-control": "public, max-age=31536000, immutable",
      "content-type": expect.stringMatching("javascript"),
    });
    expect(plain.headers).not.toHaveProperty("content-encoding");
    expect(packed.headers).toMatchObject({ "content-encoding": "gzip", vary: "accept-encoding" });
    expect(packed.headers["content-type"]).toBe(plain.headers["content-type"]);
    expect(gunzipSync(packed.rawPayload)).toEqual(plain.rawPayload);
  });

  it("answers HEAD as GET, without a body", async () => {
    for (const path of ["/console", "/console/runs", `/console/assets/${script}`]) {
      const [{ statusCode, headers, body }, whole] = [await get(path, {}, "HEAD"), await get(path)];
      expect([path, statusCode, body, headers["content-type"]]).toEqual([path, 200, "", whole.headers["content-type"]]);
    }
  });
});

describe("what is no file of the console", () => {
  it.each([
    "/console/assets/none.js",
    "/console/assets/",
    "/console/assets",
    "/console/assets/../../package.json",
    "/console/assets/..%2f..%2fservice%2fmain.js",
    "/console/assets/%2e%2e/%2e%2e/service/main.js",
    "/console/assets/%2e%2e%2fassets/none.js",
    "/console/assets/..\\..\\service\\main.js",
    "/console/../service/main.js",
    "/console/assets//etc/passwd",
    "/console/assets/console%00.js",
  ])("%s is a 404, or the page: never a file from elsewhere", async (path) => {
    const { status, json, text } = await ask(port, { path });
    if (status === 200) expect(text).toBe(readFileSync(join(FOLDER, "index.html"), "utf8"));
    else expect([status, json.error]).toEqual([404, "not_found"]);
  });

  it("is named in the answer", async () => {
    const { statusCode, body } = await get("/console/assets/console-OLD.js");
    expect([statusCode, JSON.parse(body)]).toEqual([
      404,
      expect.objectContaining({ error: "not_found", message: expect.stringContaining("assets/console-OLD.js") }),
    ]);
  });
});

describe("a page of another site", () => {
  const other = { "sec-fetch-site": "cross-site" };

  it("may link to the console, but gets nothing of it", async () => {
    const link = { ...other, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };
    for (const path of ["/", "/console", "/console/runs"])
      expect([path, (await get(path, link)).statusCode]).toEqual([path, path === "/" ? 302 : 200]);
    const frame = { ...link, "sec-fetch-dest": "iframe" };
    const fetched = { ...other, "sec-fetch-mode": "cors", "sec-fetch-dest": "empty", origin: "https://evil.example" };
    const loaded = { ...other, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script" };
    for (const headers of [frame, fetched, loaded])
      for (const path of ["/console", `/console/assets/${script}`])
        expect([path, (await get(path, headers)).statusCode]).toEqual([path, 403]);
  });
});

describe("a service with SAGA_CONSOLE=off", () => {
  it("has none of it", async () => {
    const without = await otherApi(rig, {});
    onTestFinished(() => without.close());
    for (const url of ["/", "/console", "/console/", "/console/runs", `/console/assets/${script}`])
      expect([url, (await without.inject({ url, headers: { host: "localhost" } })).statusCode]).toEqual([url, 404]);
  });
});

describe("a service whose console was not built", () => {
  it("does not start, and says what to do", async () => {
    const start = otherApi(rig, {}, { config: { console: { folder: join(FOLDER, "none") } } as never });
    await expect(start).rejects.toThrow(/the console is not built.*SAGA_CONSOLE=off/);
  });
});
