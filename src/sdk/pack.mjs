// Makes the tarballs of all packages (`npm run pack`, which builds first): each from a folder of its own, with what users need and no more. It publishes
// nothing. `--into <folder>` says where they go, `--repository <URL>` what the registry compares a provenance with.
import { execFile } from "node:child_process";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { parseArgs, promisify } from "node:util";
import { sdkPackages } from "./packages.mjs";

const ROOT = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);

const { values } = parseArgs({
  options: { into: { type: "string", default: "dist/packages" }, repository: { type: "string" } },
});
const into = resolve(values.into);
const staged = join(ROOT, "dist", "staged");

/** Members of a package.json that are of no use to who installs it. */
const OF_THE_CLONE = ["private", "workspaces", "scripts", "devDependencies", "overrides", "allowScripts"];

await rm(staged, { recursive: true, force: true });
await mkdir(into, { recursive: true });
for (const name of await readdir(into)) if (name.endsWith(".tgz")) await rm(join(into, name));

const bundles = JSON.parse(await readFile(join(ROOT, "dist", "bundles.json"), "utf8"));
await stageServer();
for (const one of await sdkPackages()) await stageSdk(one);
for (const name of await readdir(staged)) {
  const { stdout } = await run("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", into], {
    cwd: join(staged, name),
  });
  process.stdout.write(`${join(relative(process.cwd(), into), stdout.trim())}\n`);
}

async function stageServer() {
  const folder = join(staged, "server");
  // They are in the bundle: an installation fetches none of them.
  const { dependencies: _, ...manifest } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
  for (const path of manifest.files.filter((one) => !one.startsWith("!")))
    await cp(join(ROOT, path), join(folder, path), {
      recursive: true,
      // The site of the documents is a program of its own, with packages.
      filter: (from) => !from.endsWith(".map") && from !== join(ROOT, "docs", "site"),
    });
  await cp(join(ROOT, "README.md"), join(folder, "README.md"));
  await finish(folder, manifest, [...bundles.server.inlined, ...bundles.console.inlined]);
}

async function stageSdk({ name, folder: from, manifest, entries }) {
  const folder = join(staged, name);
  for (const path of manifest.files) await cp(join(from, path), join(folder, path), { recursive: true });
  await cp(join(from, "README.md"), join(folder, "README.md"));
  const typed = Object.values(manifest.exports ?? {}).flatMap(({ types }) => types ?? []);
  await copyDeclarations(folder, typed, Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies }));
  await finish(folder, manifest, bundles[name].inlined);
  if (entries.length === 0) throw new Error(`${name} has no entry`);
}

/**
 * The declarations that the entries reach, in their places below `dist/types`. Throws if they name a package that an installation of this one need
 * not have.
 */
async function copyDeclarations(folder, typed, known) {
  const paths = typed.map((path) => relative("dist/types", path));
  for (const path of paths) {
    const text = await readFile(join(ROOT, "dist", path), "utf8");
    for (const [, target] of text.matchAll(/(?:from\s*|import\s*\(?\s*)"([^"]+)"/g)) {
      const next = join(dirname(path), target.replace(/\.js$/, ".d.ts"));
      if (!target.startsWith(".")) {
        if (!known.some((name) => target === name || target.startsWith(`${name}/`)))
          throw new Error(`the declarations ${path} import ${target}, which is no dependency of this package`);
      } else if (!paths.includes(next)) paths.push(next);
    }
    const to = join(folder, "dist/types", path);
    await mkdir(dirname(to), { recursive: true });
    await writeFile(to, text);
  }
}

async function finish(folder, manifest, packages) {
  const kept = Object.entries(manifest).filter(([member]) => !OF_THE_CLONE.includes(member));
  const { repository } = values;
  const full = {
    ...Object.fromEntries(kept),
    files: [...manifest.files, "LICENSES.txt"],
    ...(repository !== undefined && { repository: { type: "git", url: `git+${repository}.git` } }),
    publishConfig: { access: "public" },
  };
  await writeFile(join(folder, "package.json"), `${JSON.stringify(full, undefined, 2)}\n`);
  await cp(join(ROOT, "LICENSE"), join(folder, "LICENSE"));
  await writeFile(join(folder, "LICENSES.txt"), await licencesOf(packages));
}

/** The bundles have these packages in them, so their notices go along. */
async function licencesOf(folders) {
  const texts = new Map();
  for (const folder of folders) {
    const { name, version, license } = JSON.parse(await readFile(join(ROOT, folder, "package.json"), "utf8"));
    const file = (await readdir(join(ROOT, folder))).find((one) => /^(licen[cs]e|copying)/i.test(one));
    const notice = file === undefined ? "" : await readFile(join(ROOT, folder, file), "utf8");
    texts.set(`${name} ${version}`, `${name} ${version} (${license})\n\n${notice.trim()}\n`);
  }
  const all = [...texts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, text]) => text);
  return `What the bundles of this package have in them, and its licences.\n\n${all.join(`\n${"-".repeat(80)}\n\n`)}`;
}
