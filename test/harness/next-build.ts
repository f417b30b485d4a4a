// A build of a later release, as tests pretend it: the compiled modules of this one with other record formats and more migrations. It is the
// other half of a rolling upgrade, and runs on the packages of this checkout.
import { cp, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { packageRoot } from "../../src/config/package.js";
import { atFileEnd } from "./file-end.js";

export interface NextRelease {
  /** The export of test/run/next-format.ts that it has. */
  readonly formats: "READS_NEXT" | "WRITES_NEXT";
  /** The statements of each further migration. */
  readonly migrations: readonly (readonly string[])[];
}

/** The file to run, for `createService`. Gone after the test file. */
export async function buildNext({ formats, migrations }: NextRelease): Promise<string> {
  const root = packageRoot();
  // Below `node_modules`, so that imports find the packages of this checkout.
  const folder = await mkdtemp(join(await realpath(join(root, "node_modules")), ".saga-next-"));
  atFileEnd(() => rm(folder, { recursive: true, force: true }));
  const copied = ["package.json", "dist/src", "dist/machines", "dist/console", "src/dispatch", "src/store/migrations"];
  for (const path of copied) await cp(join(root, path), join(folder, path), { recursive: true });
  await replaceFormats(folder, formats);
  await addMigrations(join(folder, "src", "store", "migrations"), migrations);
  // Where the service looks for the program of its trial processes.
  const trials = join(folder, "dist", "service", "trial");
  await mkdir(trials, { recursive: true });
  await writeFile(join(trials, "entry.js"), 'import "../../src/trial/entry.js";\n');
  return join(folder, "dist", "src", "main.js");
}

/** All rooms import `machines/` through its index, which has the other formats first. */
async function replaceFormats(folder: string, formats: NextRelease["formats"]): Promise<void> {
  const compiled = await readFile(join(packageRoot(), "dist", "test", "run", "next-format.js"), "utf8");
  const machines = join(folder, "dist", "machines");
  await writeFile(join(machines, "next-format.js"), compiled.replace("../../machines/index.js", "./state/record.js"));
  await writeFile(
    join(machines, "next-formats.js"),
    `import { RECORD_FORMATS } from "./state/record.js";
import { ${formats} as next } from "./next-format.js";
Object.assign(RECORD_FORMATS, next);
`,
  );
  const index = join(machines, "index.js");
  await writeFile(index, `import "./next-formats.js";\n${await readFile(index, "utf8")}`);
}

interface Journal {
  readonly entries: { readonly idx: number; readonly when: number; readonly tag: string }[];
}

export async function addMigrations(folder: string, migrations: NextRelease["migrations"]): Promise<void> {
  const path = join(folder, "meta", "_journal.json");
  const journal = JSON.parse(await readFile(path, "utf8")) as Journal;
  for (const statements of migrations) {
    const { idx, when } = journal.entries.at(-1) ?? { idx: 0, when: 0 };
    const tag = `next_${idx + 1}`;
    journal.entries.push({ idx: idx + 1, when: when + 1, tag });
    await writeFile(join(folder, `${tag}.sql`), statements.join(";--> statement-breakpoint\n"));
  }
  await writeFile(path, JSON.stringify(journal));
}
