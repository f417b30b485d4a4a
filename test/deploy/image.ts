// The images without a container engine: a stage is read from the Dockerfile, its files are laid out in a folder of their own, and a container is its
// command there, as its user, with its environment. What an engine adds beyond that is not tested here: see docs/operations.md.
import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import type { Sql } from "postgres";
import { packageRoot } from "../../src/config/package.js";
import { atFileEnd } from "../harness/file-end.js";
import { addMigrations } from "../harness/next-build.js";
import { until } from "../harness/until.js";

export type Env = Readonly<Record<string, string>>;

/** The user `node` of the official images. Without root rights the tests cannot change the user, and keep their own. */
const NODE_USER = 1_000;
const isRoot = process.getuid?.() === 0;
const AS_USER = isRoot ? { uid: NODE_USER, gid: NODE_USER } : {};

/** Of a release after this one, as tests pretend it, and the column that its migration adds to `runs`. */
export const NEXT_VERSION = "99.0.0";
const NEXT_COLUMN = "later";

/** Throws where the next release has not migrated the database. */
export const seesNext = (sql: Sql) => sql`select ${sql(NEXT_COLUMN)} from runs limit 0`;

interface Copy {
  /** Of this checkout, or of the stage `build`. */
  readonly from: string;
  readonly to: string;
  readonly isBuilt: boolean;
}

interface Stage {
  readonly base: string;
  readonly env: Env;
  readonly copies: readonly Copy[];
  /** Each a command line. */
  readonly runs: readonly string[];
  readonly user: string;
  readonly command: readonly string[];
  readonly healthCheck: readonly string[];
}

/** The last stage has no name. A stage that is based on another one has its files, too. */
export function readDockerfile(name?: string): Stage {
  const text = readFileSync(join(packageRoot(), "Dockerfile"), "utf8").replace(/\\\n\s*/g, "");
  const stages = text.split(/^(?=FROM )/m).map((stage) => stage.split("\n"));
  const lines = (name === undefined ? stages.at(-1) : stages.find(([from]) => from?.endsWith(` AS ${name}`))) ?? [];
  const of = (word: string) =>
    lines.filter((line) => line.startsWith(`${word} `)).map((line) => line.slice(word.length + 1));
  const pairs = of("ENV").flatMap((line) => line.split(" ").map((pair) => pair.split("=") as [string, string]));
  const copies = of("COPY").flatMap((line) => {
    const isBuilt = line.startsWith("--from=build ");
    const paths = line.replace(/^--from=build /, "").split(" ");
    const to = paths.at(-1) ?? "";
    return paths.slice(0, -1).map((from) => ({ from: from.replace(/^\/app\//, ""), to, isBuilt }));
  });
  const base = of("FROM")[0]?.split(" ")[0] ?? "";
  const below = stages.some(([from]) => from?.endsWith(` AS ${base}`)) ? readDockerfile(base).copies : [];
  const list = (line = "[]") => JSON.parse(line.slice(line.indexOf("["))) as string[];
  return {
    ...{ base, env: Object.fromEntries(pairs), copies: [...below, ...copies], runs: of("RUN") },
    ...{ user: of("USER")[0] ?? "root", command: list(of("CMD")[0]), healthCheck: list(of("HEALTHCHECK")[0]) },
  };
}

/** Where containers have volumes and secrets. */
const MOUNTED = /(?<![\w.])\/(?:data|keys|run\/secrets)\b/g;

/** The files of an image, which its user may read and not write. Its mounted folders are empty, and its user's. */
export class ImageRoot {
  private constructor(
    readonly folder: string,
    readonly stage: Stage,
  ) {}

  private static build: ImageRoot | undefined;

  /** The stage in which the others' files are made. */
  private static built(): ImageRoot {
    ImageRoot.build ??= ImageRoot.layOut("build");
    return ImageRoot.build;
  }

  static layOut(name?: string): ImageRoot {
    const stage = readDockerfile(name);
    const folder = mkdtempSync(join(tmpdir(), "saga-image-"));
    atFileEnd(async () => rmSync(folder, { recursive: true, force: true }));
    // Its user passes the folder of the test run, and sees nothing of it.
    if (isRoot) chmodSync(tmpdir(), statSync(tmpdir()).mode | 0o011);
    chmodSync(folder, 0o755);
    const root = new ImageRoot(folder, stage);
    for (const { from, to, isBuilt } of stage.copies) {
      const target = root.at(join("app", to.endsWith("/") ? join(to, basename(from)) : to));
      mkdirSync(dirname(target), { recursive: true });
      cpSync(join(isBuilt ? ImageRoot.built().at("app") : packageRoot(), from), target, { recursive: true });
    }
    for (const name of ["data", "keys"]) {
      mkdirSync(root.at(name));
      if (isRoot) chownSync(root.at(name), NODE_USER, NODE_USER);
    }
    for (const line of stage.runs) root.perform(line);
    return root;
  }

  /** What a RUN does to the files of the image. */
  private perform(line: string): void {
    const [program = "", ...args] = line.split(" ");
    // What it would install is here.
    if (line === "npm ci") symlinkSync(join(packageRoot(), "node_modules"), this.at("app/node_modules"));
    else if (program === "npm") {
      const quietly = ["--no-audit", "--no-fund", "--prefer-offline"];
      execFileSync(program, [...args, ...quietly], { cwd: this.at("app"), stdio: "pipe" });
    }
    const [, target, path] = /\bln -s (\S+) (\S+)$/.exec(line) ?? [];
    if (target === undefined || path === undefined) return;
    mkdirSync(dirname(this.at(path)), { recursive: true });
    chmodSync(this.at(target), 0o755);
    symlinkSync(this.at(target), this.at(path));
  }

  /** The image of the service in a pretended next release: it has another version, and a migration more. */
  static async layOutNext(): Promise<ImageRoot> {
    const root = ImageRoot.layOut();
    const path = root.at("app/package.json");
    const own = JSON.parse(readFileSync(path, "utf8")) as object;
    writeFileSync(path, JSON.stringify({ ...own, version: NEXT_VERSION }));
    const added = `ALTER TABLE "runs" ADD COLUMN "${NEXT_COLUMN}" integer`;
    await addMigrations(root.at("app/src/store/migrations"), [[added]]);
    return root;
  }

  /** A path of the image as one of this machine. */
  at(path: string): string {
    return join(this.folder, path);
  }

  /** All of its files, with their times: what has written to it shows. */
  contents(): readonly string[] {
    const files = readdirSync(this.at("app"), { recursive: true, encoding: "utf8" }).sort();
    return files.map((file) => `${file} ${statSync(join(this.at("app"), file)).mtimeMs}`);
  }

  container(options: ContainerOptions): Container {
    return new Container(this, options);
  }
}

interface ContainerOptions {
  /** Overrides that of the image. */
  readonly command?: readonly string[];
  /** Over that of the image. */
  readonly env: Env;
  /** The root whose mounted folders it has, in place of its own. */
  readonly mounts?: ImageRoot;
}

/** A command in the files of an image. */
export class Container {
  private child: ChildProcess | undefined;
  /** The code with which it has ended. */
  ended: Promise<number | null> | undefined;
  output = "";

  constructor(
    private readonly root: ImageRoot,
    private readonly options: ContainerOptions,
  ) {}

  /** Paths of mounted folders, also within a script, as ones of this machine. */
  private readonly here = (text: string): string =>
    text.replace(MOUNTED, (path) => (this.options.mounts ?? this.root).at(path));

  private get place() {
    const env = { ...this.root.stage.env, ...this.options.env };
    const own = Object.entries(env).map(([name, value]) => [name, this.here(value)] as const);
    const path = `${this.root.at("usr/local/bin")}:${process.env.PATH}`;
    return { cwd: this.root.at("app"), env: { PATH: path, ...Object.fromEntries(own) }, ...AS_USER };
  }

  /** It leads a process group, of which its nodes are, too. */
  start(): this {
    const [program = "", ...args] = (this.options.command ?? this.root.stage.command).map(this.here);
    const child = spawn(program, args, { ...this.place, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (this.output += text));
    this.ended = new Promise((resolve) => child.once("exit", resolve));
    this.child = child;
    return this;
  }

  get isRunning(): boolean {
    return this.child !== undefined && this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Waits until the health check of the image passes. Throws where the container has ended before. */
  async healthy(): Promise<this> {
    const passes = async () => !this.isRunning || (await this.run(this.root.stage.healthCheck).then(() => true));
    await until(passes, { pause: 500, what: "the health check" });
    if (!this.isRunning) throw new Error(`the container has ended:\n${this.output}`);
    return this;
  }

  /** Another command in it. Rejects where that ends with another code than 0. */
  async run(command: readonly string[]): Promise<string> {
    const [program = "", ...args] = command.map(this.here);
    return (await promisify(execFile)(program, args, this.place)).stdout;
  }

  stop(): Container["ended"] {
    this.child?.kill("SIGTERM");
    return this.ended;
  }

  /** With its nodes, if the primary has not ended them. */
  kill(): void {
    if (this.isRunning) process.kill(-(this.child?.pid ?? Number.NaN), "SIGKILL");
  }
}
