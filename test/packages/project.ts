// Empty projects, into which the packed packages are installed, and the tarballs themselves. What the packages do there is the business of the tests.
import { execFile } from "node:child_process";
import {
  cpSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";

export const ROOT = resolve(import.meta.dirname, "../..");
export const SDK_PACKAGES = ["worker", "client", "define", "create"] as const;

interface Target {
  readonly types: string;
  readonly default: string;
}

type Versions = Readonly<Record<string, string>>;

export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly private?: boolean;
  readonly license: string;
  readonly engines: Versions;
  readonly workspaces?: readonly string[];
  readonly bin?: Versions;
  readonly exports?: Readonly<Record<string, Target | string>>;
  readonly dependencies?: Versions;
  readonly peerDependencies?: Versions;
  readonly optionalDependencies?: Versions;
  readonly devDependencies?: Versions;
  readonly allowScripts?: Readonly<Record<string, boolean>>;
}

/** The package.json of a clone. */
export const clone = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as Manifest;

/** The exact version of a package with which all are tested. */
export const testedVersion = (name: string): string | undefined =>
  clone.dependencies?.[name] ?? clone.devDependencies?.[name];

const execute = promisify(execFile);
const ENV = { PATH: process.env.PATH, HOME: process.env.HOME };

/** Its standard output. Fails with what the program printed. */
export async function run(folder: string, program: string, ...args: string[]): Promise<string> {
  const { stdout } = await execute(program, args, { cwd: folder, env: ENV, maxBuffer: 2 ** 26 }).catch((error) => {
    throw new Error(`${program} ${args.join(" ")}: ${error.stdout}${error.stderr}`);
  });
  return stdout;
}

/** What the pack of a clone needs of it. */
const SOURCES = [
  ...["machines", "src", "docs", "package.json", "tsconfig.json", "esbuild.config.mjs", "postgres-driver.mjs"],
  ...["LICENSE", "README.md", "CHANGELOG.md"],
];

/** The tarballs by the last part of their names: those of the folder SAGA_TEST_TARBALLS, where somebody has just made them, else new ones. */
export async function packAll(home: string): Promise<ReadonlyMap<string, string>> {
  const into = process.env.SAGA_TEST_TARBALLS ?? (await packCopy(home));
  const found = readdirSync(into).flatMap((file) => {
    const [, name] = /^saga-orchestrator-(\w+)-\d.*\.tgz$/.exec(file) ?? [];
    return name === undefined ? [] : [[name, join(into, file)] as const];
  });
  return new Map(found);
}

/** The repository that the tarballs name. `.ci/run` names it, too. */
export const REPOSITORY = "https://example.com/saga-orchestrator";

/** Packs a copy, so that the build of the work tree is left alone and nothing stale is packed. */
async function packCopy(home: string): Promise<string> {
  const copy = join(home, "copy");
  for (const path of SOURCES) {
    const isSource = (from: string) => !/^src\/sdk\/\w+\/dist$/.test(from.slice(ROOT.length + 1));
    cpSync(join(ROOT, path), join(copy, path), { recursive: true, filter: isSource });
  }
  symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
  const into = join(home, "tarballs");
  await run(copy, "npm", "run", "pack", "--", "--into", into, "--repository", REPOSITORY);
  rmSync(copy, { recursive: true });
  return into;
}

export function temporaryFolder(): string {
  return mkdtempSync(join(tmpdir(), "saga-packages-"));
}

export interface Size {
  readonly packages: number;
  readonly megabytes: number;
}

/** What `tsc` is told in a project, beside its module options. */
const STRICT = {
  ...{ strict: true, noUncheckedIndexedAccess: true, skipLibCheck: false },
  ...{ target: "ES2023", lib: ["ES2023"], types: ["node"] },
};

/** How it finds modules: as Node does, or as bundlers do. */
const RESOLUTIONS = {
  node16: { module: "Node16", moduleResolution: "node16" },
  bundler: { module: "ESNext", moduleResolution: "bundler" },
};
export type Resolution = keyof typeof RESOLUTIONS;

export class Project {
  private constructor(
    readonly folder: string,
    private readonly pnpm: string | undefined,
  ) {}

  /** With npm, or with the pnpm of this path, whose installation has no package beside those that a package names. */
  static open(folder: string, pnpm?: string): Project {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "package.json"), '{ "name": "project", "private": true, "type": "module" }');
    if (pnpm !== undefined)
      writeFileSync(join(folder, ".npmrc"), "hoist=false\nstrict-peer-dependencies=true\nshamefully-hoist=false\n");
    return new Project(folder, pnpm);
  }

  async install(...packages: string[]): Promise<void> {
    if (this.pnpm !== undefined) await run(this.folder, this.pnpm, "add", "--prefer-offline", ...packages);
    else await run(this.folder, "npm", "install", "--prefer-offline", "--no-audit", "--no-fund", ...packages);
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.folder, path)), { recursive: true });
    writeFileSync(join(this.folder, path), text);
  }

  /** Under strict tsc. The programs by name; emits `out/<name>.js`. Returns what it has to say. */
  async compile(resolution: Resolution, programs: Readonly<Record<string, string>>): Promise<string> {
    const files = Object.entries(programs).map(([name, text]) => {
      this.write(`${name}.ts`, text);
      return `${name}.ts`;
    });
    const tsc = join(this.folder, "node_modules", ".bin", "tsc");
    const compilerOptions = { ...STRICT, ...RESOLUTIONS[resolution], outDir: "out" };
    this.write("tsconfig.json", JSON.stringify({ compilerOptions, files }));
    return run(this.folder, tsc, "-p", ".");
  }

  node(file: string, ...args: string[]): Promise<string> {
    return run(this.folder, process.execPath, join("out", file), ...args);
  }

  /** Of all that is installed: the packages, and the sum of their files. */
  size(): Size {
    let [packages, bytes] = [0, 0];
    const walk = (folder: string) => {
      for (const entry of readdirSync(folder, { withFileTypes: true })) {
        const path = join(folder, entry.name);
        if (entry.isDirectory()) walk(path);
        else if (entry.isFile()) bytes += lstatSync(path).size;
        if (/\/node_modules\/(?:@[^/]+\/)?[^/@.][^/]*\/package\.json$/.test(path)) packages++;
      }
    };
    walk(join(this.folder, "node_modules"));
    return { packages, megabytes: Math.round(bytes / 10_000) / 100 };
  }
}
