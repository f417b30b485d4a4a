// Compiles all modules (types are checked by `npm run build`), and bundles the service, the command `saga` and the console for production. Node loads the
// service's 1,400 modules one by one in 0.8 s of CPU time, and a few files in 0.3 s: every node pays for it, also the one that takes the place of
// a killed one. Packages and tests use the modules in dist/src.
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, dirname, relative, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { mendDriver } from "./postgres-driver.mjs";

const FOLDER = "dist/service";
const CONSOLE = "dist/console";

const PROGRAMS = ["src/main.ts", "src/trial/entry.ts", "src/cli/main.ts"];

/** Tests plant faults in these. */
const PLANTED = ["src/run/resident.ts", "src/run/starter.ts"];

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

/** Of a CommonJS package that is imported when it is needed, a bundle in several files has the default export only. Cookie 1 is such a one. */
const cookieImport = {
  name: "cookie-import",
  setup({ onLoad }) {
    onLoad({ filter: /\/node_modules\/@fastify\/cookie\/index\.js$/ }, async ({ path }) => {
      const text = await readFile(path, "utf8");
      const contents = text.replace("await import('cookie')", "require('cookie')");
      if (contents === text) throw new Error("@fastify/cookie loads its package in another way now");
      return { contents };
    });
  },
};

await mendDriver();

/** Where modules are. A packed copy of the sources has the first two only. */
const ROOMS = ["machines", "src", "test", "bench", "examples"];
/** Pages for the browser are bundled only, and the bench of peers is a program of its own, with packages of its own. */
const NO_MODULES = /\.d\.ts$|\/node_modules\/|^src\/console\/browser\/|^bench\/peers\/apps\//;

const modules = await build({
  entryPoints: (await Promise.all(ROOMS.map(modulesOf))).flat(),
  outbase: ".",
  outdir: "dist",
  write: false,
  format: "esm",
  platform: "node",
  target: "node20",
  sourcemap: true,
  sourcesContent: false,
  logLevel: "warning",
});

const service = await build({
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
  // A third less for Node to read when a process starts. Names stay, for what prints them.
  minifySyntax: true,
  minifyWhitespace: true,
  plugins: [packageFolders, cookieImport],
  banner: { js: COMMON_JS },
  sourcemap: true,
  sourcesContent: false,
  logLevel: "warning",
});

await write(modules.outputFiles);
const { stepBook } = await import("./dist/machines/steps/facts.js");

const pages = await build({
  entryPoints: { console: "src/console/main.tsx" },
  outdir: CONSOLE,
  // A browser caches a file without asking again, so its name changes with its content.
  entryNames: "assets/[name]-[hash]",
  chunkNames: "assets/[name]-[hash]",
  assetNames: "assets/[name]-[hash]",
  write: false,
  bundle: true,
  // A page is loaded when it is opened.
  splitting: true,
  format: "esm",
  platform: "browser",
  target: ["chrome123", "firefox121", "safari17.5"],
  jsx: "automatic",
  minify: true,
  define: { "process.env.NODE_ENV": '"production"', STEP_FACTS: JSON.stringify([...stepBook().values()]) },
  legalComments: "linked",
  metafile: true,
  logLevel: "warning",
});

await put(FOLDER, service.outputFiles);
await put(CONSOLE, [...compressed(pages.outputFiles), await pageOf(pages)]);

async function modulesOf(room) {
  const names = await readdir(room, { recursive: true }).catch(() => []);
  return names.map((name) => `${room}/${name}`).filter((path) => path.endsWith(".ts") && !NO_MODULES.test(path));
}

/** The page that loads the console's program. */
async function pageOf({ outputFiles }) {
  const named = (end) => basename(outputFiles.find(({ path }) => end.test(basename(path))).path);
  const text = (await readFile("src/console/index.html", "utf8"))
    .replace("{{script}}", `assets/${named(/^console-\w+\.js$/)}`)
    .replace("{{style}}", `assets/${named(/^console-\w+\.css$/)}`);
  return { path: resolve(CONSOLE, "index.html"), contents: Buffer.from(text) };
}

/** Beside each file its compressed forms, which are sent as they are. */
function compressed(files) {
  return files.flatMap(({ path, contents }) => [
    { path, contents },
    { path: `${path}.gz`, contents: gzipSync(contents, { level: 9 }) },
  ]);
}

/** Files that have not changed stay untouched: a service that starts at this moment must not read half of one. */
async function write(files) {
  for (const { path, contents } of files) {
    await mkdir(dirname(path), { recursive: true });
    const written = await readFile(path).catch(() => undefined);
    if (!written?.equals(contents)) await writeFile(path, contents);
  }
}

/** Nothing else is left in the folder. */
async function put(folder, files) {
  await write(files);
  const made = new Set(files.map(({ path }) => path));
  for (const name of await readdir(folder, { recursive: true })) {
    const path = resolve(folder, name);
    if (/\.(js|css|txt|html)/.test(name) && !made.has(path)) await rm(path);
  }
}
