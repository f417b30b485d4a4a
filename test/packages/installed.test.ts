// The packages as users get them: packed, each installed alone into an empty project with npm and with a strict pnpm, compiled against, and used. Not
// what the service and the SDK do in full: that is tested from the sources.
// @module-tag long
import { execFile } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { transform } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { describeWithBrowser, openPage } from "../harness/browser.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { freePorts } from "../harness/ports.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { CLIENT_PROGRAM, FROM_ENTRIES, HTTP_WORKER, TYPED_REHEARSAL, WORKER } from "./programs.js";
import { clone, Project, packAll, REPOSITORY, run, temporaryFolder, testedVersion } from "./project.js";
import { Anywhere, Aside, INSTALLED, type Installed } from "./runtimes.js";

const TOOLS = ["typescript", "@types/node"].map((name) => `${name}@${testedVersion(name)}`);
const PNPM = "pnpm@10.34.8";
const WORKER_LIMITS = { packages: 40, megabytes: 15 };

const home = temporaryFolder();
let tarballs: ReadonlyMap<string, string>;
let database: TestDatabase;
let server: Project;
let service: ServiceProcess;
/** Where a site is whose pages may use the service. */
let sitePort: number;
/** Absent: it could not be installed. */
let pnpm: string | undefined;

const tarball = (name: string) => tarballs.get(name) ?? `no tarball of ${name}`;
const inServer = (path: string) => join(server.folder, "node_modules", "@saga-orchestrator", "server", path);

beforeAll(async () => {
  database = await createTestDatabase();
  tarballs = await packAll(home);
  const tools = Project.open(join(home, "tools"));
  await tools.install(PNPM).then(
    () => {
      pnpm = join(tools.folder, "node_modules", ".bin", "pnpm");
    },
    (error: Error) => console.log(`${PNPM} could not be installed: ${error.message}`),
  );
  server = Project.open(join(home, "server"));
  await server.install(tarball("server"));
  [sitePort = 0] = await freePorts(1);
  service = await createService(
    { DATABASE_URL: database.url, SAGA_WORKERS: "1", SAGA_ALLOWED_ORIGINS: `http://127.0.0.1:${sitePort}` },
    inServer("dist/service/main.js"),
  );
  await service.start();
}, 600_000);
afterAll(async () => {
  await service?.stop();
  await database?.drop();
  rmSync(home, { recursive: true, force: true });
});

/** Each with one way in which a compiler finds modules. What differs is the place of a package's packages, and who looks for its types. */
const MANAGERS = [
  ["npm", "node16"],
  ["pnpm", "bundler"],
] as const;

const TYPEBOX = `typebox@${testedVersion("typebox")}`;
const LIBRARIES = ["fastify", "amqplib"].map((name) => `${name}@${testedVersion(name)}`);

describe.each(MANAGERS)("with %s in an empty project", (manager, resolution) => {
  /** With one package of ours, and what it needs. */
  async function projectWith(name: string): Promise<Project> {
    if (manager === "pnpm" && pnpm === undefined)
      throw new Error(`${PNPM} could not be installed: nothing is known of it`);
    const project = Project.open(join(home, `${manager}-${name}`), manager === "pnpm" ? pnpm : undefined);
    await project.install(tarball(name));
    const { packages, megabytes } = project.size();
    console.log(`${manager}: ${name} with ${packages} packages and ${megabytes} MB`);
    return project;
  }
  const entriesOf = (project: Project, name: string) =>
    FROM_ENTRIES(join(project.folder, "node_modules", "@saga-orchestrator", name));

  describe("the worker", () => {
    let project: Project;
    beforeAll(async () => {
      project = await projectWith("worker");
    }, 120_000);

    it("is small", () => {
      expect(project.size().packages).toBeLessThanOrEqual(WORKER_LIMITS.packages);
      expect(project.size().megabytes).toBeLessThan(WORKER_LIMITS.megabytes);
    });

    it("executes a step of a real service without a library that the user brings", async () => {
      await project.install(TYPEBOX);
      project.write("out/worker.js", (await transform(WORKER, { loader: "ts" })).code);
      expect(await project.node("worker.js", service.url, service.grpcAddress, `pay-${manager}`)).toBe(
        "succeeded with paid 7 ann 😀\n",
      );
    });

    it("compiles with all names of its entries, and serves HTTP, with the libraries that the user brings", async () => {
      await project.install(...TOOLS, ...LIBRARIES);
      const [port = 0] = await freePorts(1);
      const programs = { worker: WORKER, http: HTTP_WORKER, all: entriesOf(project, "worker") };
      expect(await project.compile(resolution, programs)).toBe("");
      expect(await project.node("http.js", service.url, String(port), `label-${manager}`)).toBe("succeeded with L-1\n");
    });
  });

  it("the client is one small package, compiles, and takes a run of a real service to its end", async () => {
    const project = await projectWith("client");
    expect(project.size().packages).toBe(1);
    expect(project.size().megabytes).toBeLessThan(1);
    await project.install(...TOOLS);
    expect(await project.compile(resolution, { client: CLIENT_PROGRAM, all: entriesOf(project, "client") })).toBe("");
    expect(await project.node("client.js", service.url, `wait-${manager}`)).toBe("succeeded with ann 😀, true\n");
  });

  it("definitions have all names of their entries without a type of the machine, and are rehearsed", async () => {
    const project = await projectWith("define");
    await project.install(...TOOLS, TYPEBOX);
    expect(await project.compile(resolution, { rehearsal: TYPED_REHEARSAL, all: entriesOf(project, "define") })).toBe(
      "",
    );
    expect(await project.node("rehearsal.js")).toBe("succeeded with paid 7, and failed with card_declined\n");
  });
});

describe("the client", () => {
  let anywhere: Anywhere;
  let aside: Aside;
  let missing: string | undefined;
  beforeAll(async () => {
    anywhere = new Anywhere(home);
    missing = await anywhere.install(tarball("client"));
    aside = new Aside(service.url, anywhere.clientModule);
    await aside.listen(sitePort);
  }, 200_000);
  afterAll(() => aside?.close());

  /** What `anywhere/play.mjs` sees. `cut`: the connections of its two watches. */
  const seenWith = (...cut: ("stream" | "wait")[]) => ({
    once: true,
    watched: [true, true],
    cut,
    output: { by: "ann 😀" },
    failed: ["SagaFailed", "shut", "stop"],
    refused: [
      ["Conflict", 409, "conflict"],
      ["Invalid", 422, "unprocessable"],
      ["NotFound", 404, "not_found"],
    ],
    where: ["$.inputs.amount"],
    lost: ["Unreachable", true],
    late: ["Unreachable", true],
    moved: ["UnexpectedAnswer", true],
    pages: { sizes: [2, 2, 1], all: true },
    aborted: [true, "TimeoutError"],
  });
  const WITH_STREAMS = seenWith("stream", "wait");

  it("does all its work in the Node that runs the tests", async () => {
    // Node 20 has no WebSocket.
    const expected = "WebSocket" in globalThis ? WITH_STREAMS : seenWith("wait", "wait");
    expect(await anywhere.play(undefined, aside.relayUrl, aside.url, "this-node")).toEqual(expected);
  });

  it.for(Object.keys(INSTALLED) as Installed[])(
    "does all its work in %s (needs the registry of npm)",
    async (name, { skip }) => {
      skip(missing !== undefined, missing);
      const id = name.toLowerCase().replace(" ", "-");
      expect(await anywhere.play(name, aside.relayUrl, aside.url, id)).toEqual(WITH_STREAMS);
    },
  );

  describeWithBrowser("in a page of another site", () => {
    it("does all its work", async () => {
      const { page, faults } = await openPage(aside.url, "/", { allowed: [aside.relayUrl] });
      const args = JSON.stringify([aside.relayUrl, aside.url, "browser"]);
      const seen = await page.evaluate(`import("/play.mjs").then(({ play }) => play(...${args}))`);
      expect([seen, faults]).toEqual([WITH_STREAMS, []]);
    });
  });

  it("has followed no redirect anywhere", () => {
    expect(aside.followed).toBe(0);
  });
});

describe("the server's package", () => {
  it("is its own files and the embedded Postgres alone", async () => {
    const { packages, megabytes } = server.size();
    console.log(`server with ${packages} packages and ${megabytes} MB`);
    const locked = JSON.parse(readFileSync(join(server.folder, "package-lock.json"), "utf8")) as {
      readonly packages: Readonly<Record<string, { readonly optional?: boolean }>>;
    };
    const needed = Object.entries(locked.packages).filter(([path, { optional = false }]) => path !== "" && !optional);
    expect(needed.map(([path]) => path)).toEqual(["node_modules/@saga-orchestrator/server"]);
  });

  it("serves the console and the documentation of the API from its own files", { timeout: 120_000 }, async () => {
    for (const [start, path] of [
      ["/", "/console"],
      ["/docs", "/docs"],
    ] as const) {
      const page = await fetch(`${service.url}${start}`);
      expect([start, page.status, new URL(page.url).pathname.replace(/\/$/, "")]).toEqual([start, 200, path]);
      const links = [...(await page.text()).matchAll(/(?:src|href)="(\.?\/[^"]+)"/g)].map(([, link = ""]) => link);
      expect(links.length).toBeGreaterThan(1);
      for (const link of links) {
        const url = new URL(link, `${page.url}/`);
        expect([url.pathname, (await fetch(url)).status]).toEqual([url.pathname, 200]);
      }
    }
  });

  it("has the command saga, which prints the signing secret of a service", async () => {
    const saga = join(server.folder, "node_modules", ".bin", "saga");
    expect(await run(server.folder, saga, "--help")).toContain("signing-secret <service>");
    const env = { PATH: process.env.PATH, SAGA_SIGNING_SECRET: "0123456789abcdef0123456789abcdef" };
    const { stdout, stderr } = await promisify(execFile)(saga, ["signing-secret", "payments"], {
      cwd: server.folder,
      env,
    });
    expect([stdout, stderr]).toEqual(["whsec_08wGjDv/rngkIvgt0JPeMiSIcxf+r01+/U2hXgX3BGM=\n", ""]);
  });

  it("starts on its own Postgres, as a clone does", { timeout: 200_000 }, async () => {
    const own = await createService(
      { SAGA_DATA_DIR: join(home, "data"), SAGA_WORKERS: "1" },
      inServer("dist/service/main.js"),
    );
    await own.start({ within: 120_000 });
    await until(async () => (await fetch(`${own.url}/readyz`)).status === 200, { what: "a service that is ready" });
    await own.stop();
  });

  it("has no tests, sources, source maps or types of ours", async () => {
    const files = (await run(home, "tar", "-tzf", tarball("server"))).trim().split("\n");
    expect(files.length).toBeGreaterThan(100);
    expect(
      files.filter((path) => /\/(?:test|bench|examples|machines)\/|\.map$|\.tsbuildinfo$|\.ts$/.test(path)),
    ).toEqual([]);
    expect(files).toEqual(expect.arrayContaining(["package/LICENSE", "package/LICENSES.txt", "package/README.md"]));
    const wanted = ["src/store/migrations/meta/_journal.json", "src/dispatch/worker.proto", "dist/console/index.html"];
    expect(wanted.filter((path) => !existsSync(inServer(path)))).toEqual([]);
  });
});

describe("publishing", () => {
  it("would take each package, with its repository and open to all", { timeout: 120_000 }, async () => {
    expect([...tarballs.keys()]).toEqual(expect.arrayContaining(["server", "worker", "client", "define"]));
    for (const [name, file] of tarballs) {
      const said = JSON.parse(await run(home, "npm", "publish", file, "--dry-run", "--json", "--ignore-scripts"));
      const { id } = said[`@saga-orchestrator/${name}`] ?? said;
      expect(id).toBe(`@saga-orchestrator/${name}@${clone.version}`);
      const manifest = JSON.parse(await run(home, "tar", "-xzOf", file, "package/package.json"));
      expect(manifest.repository.url).toBe(`git+${REPOSITORY}.git`);
      expect(manifest.publishConfig).toEqual({ access: "public" });
      expect(Object.keys(manifest)).not.toEqual(expect.arrayContaining(["private"]));
    }
  });
});
