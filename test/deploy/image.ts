// The image without a container engine: its last stage is read from the Dockerfile, its files are laid out in a folder of their own, and its command runs
// there, as its user, with its environment. What a container adds beyond that is not tested here: see docs/operations.md.
import { type ChildProcess, execFile, spawn } from "node:child_process";
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
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { packageRoot } from "../../src/config/package.js";
import { atFileEnd } from "../harness/file-end.js";

type Env = Readonly<Record<string, string>>;

/** The user `node` of the official images. Without root rights the tests cannot change the user, and keep their own. */
const NODE_USER = 1_000;
const isRoot = process.getuid?.() === 0;
const AS_USER = isRoot ? { uid: NODE_USER, gid: NODE_USER } : {};

interface Stage {
  readonly base: string;
  readonly env: Env;
  /** From a path of the build to one of the image. */
  readonly copies: readonly (readonly [from: string, to: string])[];
  readonly user: string;
  readonly command: readonly string[];
  readonly healthCheck: readonly string[];
}

/** The last stage. */
export function readDockerfile(): Stage {
  const text = readFileSync(join(packageRoot(), "Dockerfile"), "utf8").replace(/\\\n\s*/g, "");
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  const stage = lines.slice(lines.findLastIndex((line) => line.startsWith("FROM ")));
  const of = (word: string) =>
    stage.filter((line) => line.startsWith(`${word} `)).map((line) => line.slice(word.length + 1));
  const pairs = of("ENV").flatMap((line) => line.split(" ").map((pair) => pair.split("=") as [string, string]));
  const copies = of("COPY").map((line) => {
    const [from = "", to = ""] = line.replace(/^--from=build /, "").split(" ");
    return [from.replace(/^\/app\//, ""), to] as const;
  });
  const list = (line = "[]") => JSON.parse(line.slice(line.indexOf("["))) as string[];
  return {
    ...{ base: stage[0]?.slice("FROM ".length) ?? "", env: Object.fromEntries(pairs), copies },
    ...{ user: of("USER")[0] ?? "root", command: list(of("CMD")[0]), healthCheck: list(of("HEALTHCHECK")[0]) },
  };
}

export class ImageRoot {
  private constructor(readonly folder: string) {}

  /** The files of the image, which its user may read and not write, and an empty folder for its data. */
  static layOut(): ImageRoot {
    const folder = mkdtempSync(join(tmpdir(), "saga-image-"));
    atFileEnd(async () => rmSync(folder, { recursive: true, force: true }));
    // Its user passes the folder of the test run, and sees nothing of it.
    if (isRoot) chmodSync(tmpdir(), statSync(tmpdir()).mode | 0o011);
    chmodSync(folder, 0o755);
    for (const [from, to] of readDockerfile().copies) {
      const target = join(folder, "app", to.endsWith("/") ? join(to, from) : to);
      mkdirSync(dirname(target), { recursive: true });
      cpSync(join(packageRoot(), from), target, { recursive: true });
    }
    mkdirSync(join(folder, "data"));
    if (isRoot) chownSync(join(folder, "data"), NODE_USER, NODE_USER);
    return new ImageRoot(folder);
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

  /** `env` overrides that of the image, as that of a container does. */
  private env(env: Env): Env {
    const own = Object.entries({ ...readDockerfile().env, ...env });
    const here = ([name, value]: readonly [string, string]) =>
      [name, /^\/(data|run\/secrets)/.test(value) ? this.at(value) : value] as const;
    return { PATH: process.env.PATH ?? "", ...Object.fromEntries(own.map(here)) };
  }

  /** It leads a process group, of which its nodes are, too. */
  start(env: Env): ChildProcess {
    const [program = "", ...args] = readDockerfile().command;
    const options = { cwd: this.at("app"), env: this.env(env), ...AS_USER };
    return spawn(program, args, { ...options, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  }

  /** Rejects where it ends with another code than 0. */
  async run(command: readonly string[], env: Env): Promise<string> {
    const [program = "", ...args] = command;
    const options = { cwd: this.at("app"), env: this.env(env), ...AS_USER };
    return (await promisify(execFile)(program, args, options)).stdout;
  }
}
