// The packages of the SDK as the build sees them, read from their package.json. A package is a bundle of each of its entries, with what it shares
// with others inside, so that each installs alone.
import { readFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { build } from "esbuild";

const SDK = import.meta.dirname;
const ROOT = resolve(SDK, "../..");

/** In each: its folder in src/sdk. */
const NAMES = ["worker", "client", "define", "create"];

/** Of these, entries run in browsers, Deno and edge runtimes, too: nothing of Node is in them. */
const ANYWHERE = new Set(["client", "define"]);

/** Files that a package reads at run time, beside its bundles. */
const WITH_FILES = { worker: [["src/dispatch/worker.proto", "worker.proto"]] };

/** All that have entries: `dist/<path>.js` is the bundle of the source `<path>.ts`. */
export async function sdkPackages() {
  const all = await Promise.all(
    NAMES.map(async (name) => {
      const folder = join(SDK, name);
      const manifest = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
      const targets = [
        ...Object.values(manifest.exports ?? {}).map((entry) => entry.default),
        ...Object.values(manifest.bin ?? {}),
      ];
      const entries = targets.flatMap((target) => /^\.\/dist\/(.*)\.js$/.exec(target ?? "")?.[1] ?? []);
      return { name, folder, manifest, entries };
    }),
  );
  return all.filter(({ entries }) => entries.length > 0);
}

/** The bundles of a package: files in its `dist`, and which packages of npm are inside. */
export async function bundleOf({ name, folder, manifest, entries }) {
  const { dependencies = {}, peerDependencies = {} } = manifest;
  const { outputFiles, metafile } = await build({
    entryPoints: entries.map((entry) => ({ in: join(folder, `${entry}.ts`), out: entry })),
    outdir: join(folder, "dist"),
    write: false,
    bundle: true,
    // Entries of one package share their classes: an ActionError is one whichever transport throws it.
    splitting: true,
    chunkNames: "chunks/[name]-[hash]",
    format: "esm",
    platform: ANYWHERE.has(name) ? "neutral" : "node",
    target: ANYWHERE.has(name) ? "es2022" : "node20",
    mainFields: ["module", "main"],
    conditions: ["import"],
    external: Object.keys({ ...dependencies, ...peerDependencies }),
    metafile: true,
    legalComments: "inline",
    logLevel: "warning",
  });
  return { name, folder, outputFiles, contents: contentsOf(metafile) };
}

/** What lies beside the bundles of a package. */
export function filesOf(name) {
  return Promise.all(
    (WITH_FILES[name] ?? []).map(async ([from, to]) => ({
      path: join(SDK, name, "dist", to),
      contents: await readFile(join(ROOT, from)),
    })),
  );
}

/** What a bundle has in it, as folders of packages of npm, and what it imports from outside. */
export function contentsOf(metafile) {
  const imports = Object.values(metafile.outputs).flatMap((output) => output.imports);
  const external = imports.filter((one) => one.external).map(({ path }) => path);
  return { inlined: inlinedIn(metafile), external: [...new Set(external)].sort() };
}

function inlinedIn(metafile) {
  const folders = Object.values(metafile.outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([path, { bytesInOutput }]) => {
      const [folder] =
        bytesInOutput > 0
          ? (/^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(relative(ROOT, resolve(path))) ?? [])
          : [];
      return folder === undefined ? [] : [folder];
    }),
  );
  return [...new Set(folders)].sort();
}
