// Compiles all modules (types are checked by `npm run build`), and bundles the service, the command `saga`, the console and the packages of the SDK.
// Node loads the service's 1,400 modules one by one in 0.8 s of CPU time, and a few files in 0.3 s: every node pays for it, also the one that takes the
// place of a killed one. Tests use the modules in dist/src.
// Rooms on the command line: only their modules are compiled, so that who runs the service does not wait for those of the tests.
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { mendDriver } from "./postgres-driver.mjs";
import { bundleOf, contentsOf, filesOf, sdkPackages } from "./src/sdk/packages.mjs";

const FOLDER = "dist/service";
const CONSOLE = "dist/console";

const PROGRAMS = ["src/main.ts", "src/trial/entry.ts", "src/cli/main.ts"];

/** What runs inside the processes that have code of a project. */
const IN_CHILDREN = ["tether", "loads", "loads-hooks", "describe"].map((name) => `src/cli/modules/${name}.ts`);

/** Tests plant faults in these. */
const PLANTED = ["src/run/resident.ts", "src/run/starter.ts"];

/**
 * Packages that read files of their own folder at run time, and which. They are bundled, and the files are copied beside the bundle: an installed
 * package needs none of them in its node_modules.
 */
const WITH_FILES = {
  "@fastify/swagger": ["package.json"],
  "@fastify/swagger-ui": ["static"],
  "@grpc/grpc-js": ["proto"],
  "@grpc/reflection": ["build/proto"],
  "grpc-health-check": ["proto"],
  ioredis: ["package.json"],
};

/** What CommonJS packages expect to find, and ES modules lack. The folder of the bundle is above those of some of its files. */
const COMMON_JS = `
import { createRequire as __createRequire } from "node:module";
import { fileURLToPath as __pathOf } from "node:url";
const require = __createRequire(import.meta.url);
const __folderIn = (folder) => __pathOf(import.meta.url.replace(/(\\/dist\\/service\\/)(?!.*\\/dist\\/service\\/).*/, "$1packages/" + folder));`;

const packageFolders = {
  name: "package-folders",
  setup({ onLoad }) {
    for (const name of Object.keys(WITH_FILES))
      onLoad({ filter: new RegExp(`/node_modules/${name}/.*\\.js$`) }, async ({ path }) => {
        const folder = dirname(path).slice(path.indexOf("/node_modules/") + "/node_modules/".length);
        const text = await readFile(path, "utf8");
        return { contents: text.replaceAll("__dirname", `__folderIn("${folder}")`) };
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
const ROOMS = ["machines", "src", "examples", "test", "bench"];
const wanted = process.argv.slice(2);
const unknown = wanted.filter((room) => !ROOMS.includes(room));
if (unknown.length > 0) throw new Error(`no modules are in ${unknown.join(", ")}; they are in ${ROOMS.join(", ")}`);
/** Pages for the browser are bundled only, the template of a project is shipped as it is, and the bench of peers is a program of its own, with packages of its own. */
const NO_MODULES =
  /\.d\.ts$|\/node_modules\/|^src\/console\/browser\/|^bench\/peers\/apps\/|^src\/sdk\/create\/template\//;

const modules = await build({
  entryPoints: (await Promise.all((wanted.length > 0 ? wanted : ROOMS).map(modulesOf))).flat(),
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
  entryPoints: [...PROGRAMS, ...IN_CHILDREN, ...PLANTED],
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
  metafile: true,
  logLevel: "warning",
});

const sdk = await Promise.all((await sdkPackages()).map(bundleOf));

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
await write(await filesOfPackages());
await put(CONSOLE, [...compressed(pages.outputFiles), await pageOf(pages)]);

for (const { name, folder, outputFiles } of sdk) {
  await put(join(folder, "dist"), outputFiles);
  await write(await filesOf(name));
}
// What is in which bundle: for the licences that go along (src/sdk/pack.mjs), and for a test.
const contents = [
  ["server", contentsOf(service.metafile)],
  ["console", contentsOf(pages.metafile)],
  ...sdk.map((one) => [one.name, one.contents]),
];
await write([
  { path: "dist/bundles.json", contents: Buffer.from(JSON.stringify(Object.fromEntries(contents), undefined, 2)) },
]);

async function filesOfPackages() {
  const files = [];
  for (const [name, paths] of Object.entries(WITH_FILES))
    for (const path of paths)
      for (const file of await filesAt(join("node_modules", name, path)))
        files.push({ path: join(FOLDER, "packages", relative("node_modules", file)), contents: await readFile(file) });
  return files;
}

/** The files of a folder, or the one file. */
async function filesAt(path) {
  if ((await stat(path)).isFile()) return [path];
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

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

/** A service that starts at this moment, or another build, reads the whole of the old file or of the new one. Unchanged files stay untouched. */
async function write(files) {
  const written = `dist/written-by-${process.pid}`;
  for (const { path, contents } of files) {
    await mkdir(dirname(path), { recursive: true });
    if ((await readFile(path).catch(() => undefined))?.equals(contents)) continue;
    await writeFile(written, contents);
    await rename(written, path);
  }
}

/** Nothing else is left in the folder. */
async function put(folder, files) {
  await write(files);
  const made = new Set(files.map(({ path }) => path));
  for (const name of await readdir(folder, { recursive: true })) {
    const path = resolve(folder, name);
    // The files of packages are copies, and no files of the bundle.
    if (/^(?!packages\/).*\.(js|css|txt|html)/.test(name) && !made.has(path)) await rm(path, { force: true });
  }
}
