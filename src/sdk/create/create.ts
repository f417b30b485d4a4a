// Writes a new project from the template of this package, without a network. It installs nothing and starts nothing.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const HELP = `Usage: npm create @saga-orchestrator [folder]

Writes a project for the saga orchestrator into the folder: a saga, its actions, a worker, a test, and a script that starts one.
Without a folder it is "sagas". The folder must be empty, or not exist.

  --name <name>        the name of the package; default: that of the folder
  --packages <folder>  take the packages of the orchestrator from the tarballs in this folder, and not from the registry
  -h, --help           this text
  -V, --version        the version of this package, and of those that the project will have
`;

const DEFAULT_FOLDER = "sagas";
const WRONG_USE = 2;
const MOST_NAME = 214;
/** As npm has it for new packages. */
const NAME = /^(?:@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~-][a-z0-9._~-]*$/;
const TAKEN = ["node_modules", "favicon.ico"];
const OURS = "@saga-orchestrator/";
/** A packed package has neither a `.gitignore` nor a second `package.json`. */
const NAMES: Readonly<Record<string, string>> = { _gitignore: ".gitignore", "_package.json": "package.json" };
/** Of a folder that is new for everyone: what a repository or a file manager has made. */
const NO_CONTENT = [".git", ".DS_Store"];

/** The arguments are wrong, or the folder cannot be used: the message says so in one sentence. */
class Refusal extends Error {}

interface Given {
  readonly folder: string;
  readonly name: string | undefined;
  readonly packages: string | undefined;
  readonly prints: "help" | "version" | undefined;
}

/** Writes the project, or nothing. `from`: the folder of the package, which has the template. */
export function create(args: readonly string[], cwd: string, from = ownFolder()): Outcome {
  try {
    const { folder, name: given, packages, prints } = read(args);
    const { version } = JSON.parse(readFileSync(join(from, "package.json"), "utf8")) as { readonly version: string };
    if (prints === "help") return { code: 0, stdout: HELP, stderr: "" };
    if (prints === "version") return { code: 0, stdout: `${version}\n`, stderr: "" };
    const path = resolve(cwd, folder);
    const name = checkedName(given ?? basename(path), given === undefined);
    checkEmpty(path, folder);
    const dependency = packages === undefined ? () => version : tarballs(resolve(cwd, packages), path, version);
    const files = write(join(from, "template"), path, { name, dependency });
    return { code: 0, stdout: said(files, path === cwd ? undefined : folder, name), stderr: "" };
  } catch (error) {
    if (error instanceof Refusal) return { code: WRONG_USE, stdout: "", stderr: `create: ${error.message}\n` };
    const { code, path } = error as NodeJS.ErrnoException;
    if (code === undefined || path === undefined) throw error;
    return { code: 1, stdout: "", stderr: `create: ${path} cannot be written (${code})\n` };
  }
}

/** Options with a value, and what it is. */
const WITH_VALUE: Readonly<Record<string, string>> = { "--name": "a name", "--packages": "a folder" };

function read(args: readonly string[]): Given {
  let folder: string | undefined;
  let prints: Given["prints"];
  const values = new Map<string, string>();
  for (let at = 0; at < args.length; at++) {
    const arg = args[at] ?? "";
    const [, option = arg, inIt] = /^(--\w+)=(.*)$/s.exec(arg) ?? [];
    const what = WITH_VALUE[option];
    if (what !== undefined) {
      const value = inIt ?? args[++at];
      if (value === undefined) throw new Refusal(`${option} needs ${what}: see --help`);
      values.set(option, value);
    } else if (arg === "--help" || arg === "-h") prints = "help";
    else if (arg === "--version" || arg === "-V") prints ??= "version";
    else if (arg.startsWith("-")) throw new Refusal(`there is no option ${arg}: see --help`);
    else if (folder !== undefined) throw new Refusal(`one folder is written, and there are two: ${folder} and ${arg}`);
    else folder = arg;
  }
  if (folder === "") throw new Refusal("the name of the folder is empty");
  return { folder: folder ?? DEFAULT_FOLDER, name: values.get("--name"), packages: values.get("--packages"), prints };
}

function checkedName(name: string, isOfFolder: boolean): string {
  if (NAME.test(name) && name.length <= MOST_NAME && !TAKEN.includes(name)) return name;
  const whose = isOfFolder ? `the folder's name ${JSON.stringify(name)}` : JSON.stringify(name);
  const advice = isOfFolder ? "choose another folder, or give a name with --name" : "choose another name";
  throw new Refusal(
    `${whose} is no name of a package: it must be of a-z, 0-9, - . _ and ~, and begin with a letter or digit; ${advice}`,
  );
}

function checkEmpty(path: string, folder: string): void {
  if (!existsSync(path)) return;
  let names: string[];
  try {
    names = readdirSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Refusal(
      code === "ENOTDIR" ? `${folder} is a file: choose another folder` : `${folder} cannot be read (${code})`,
    );
  }
  const [first] = names.filter((name) => !NO_CONTENT.includes(name));
  if (first !== undefined)
    throw new Refusal(
      `${folder} is not empty (it has ${first}): choose another folder, or empty this one; nothing was written`,
    );
}

/** What a project depends on, by the name of one of our packages. */
type Dependency = (name: string) => string;

/** As npm names them when it packs. The path is relative: the project and the tarballs may move together. */
function tarballs(packages: string, project: string, version: string): Dependency {
  return (name) => {
    const path = join(packages, `${name.slice(1).replace("/", "-")}-${version}.tgz`);
    if (!existsSync(path))
      throw new Refusal(`there is no ${path}: --packages is the folder of the tarballs of ${version}`);
    return `file:${relative(project, path).replaceAll("\\", "/")}`;
  };
}

interface Own {
  readonly name: string;
  readonly dependency: Dependency;
}

/** Returns the paths of the files, as they are written. Nothing is, if one of them cannot be made. */
function write(template: string, into: string, own: Own): string[] {
  const entries = readdirSync(template, { recursive: true, withFileTypes: true });
  const from = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const files = from.sort().map((path) => {
    const name = basename(path);
    const to = join(dirname(path).slice(template.length), NAMES[name] ?? name).replace(/^[\\/]/, "");
    const text = readFileSync(path, "utf8");
    return { to, text: to === "package.json" ? manifestOf(text, own) : text };
  });
  for (const { to, text } of files) {
    mkdirSync(dirname(join(into, to)), { recursive: true });
    // `wx`: what somebody else has written since stays.
    writeFileSync(join(into, to), text, { flag: "wx" });
  }
  return files.map(({ to }) => to.replaceAll("\\", "/"));
}

/** Its name, and where our packages come from. */
function manifestOf(text: string, { name, dependency }: Own): string {
  const manifest = JSON.parse(text) as {
    dependencies: Record<string, string>;
    devDependencies: Record<string, string>;
  };
  for (const list of [manifest.dependencies, manifest.devDependencies])
    for (const each of Object.keys(list)) if (each.startsWith(OURS)) list[each] = dependency(each);
  return `${JSON.stringify({ ...manifest, name }, undefined, 2)}\n`;
}

function said(files: readonly string[], folder: string | undefined, name: string): string {
  const list = files.map((path) => `  ${path}`);
  const commands = [
    ...(folder === undefined
      ? []
      : [`cd ${/^[\w./~-]+$/.test(folder) ? folder : `'${folder.replaceAll("'", "'\\''")}'`}`]),
    "npm install",
    "npm run dev",
  ];
  return [`Wrote the project ${name}:`, ...list, "", "Next:", ...commands.map((line) => `  ${line}`), ""].join("\n");
}

/** That of the nearest package.json above this file, in the bundle as in the sources. */
function ownFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) folder = dirname(folder);
  return folder;
}
