// `saga archive …`: reads the files that retention has written before it deleted runs. It asks no service, and the database for nothing but
// the keys of values that are sealed.
import { type ArchivedFile, findRun, type Listed, listArchive, verifyFile } from "../../archive/reader.js";
import { readSetting } from "../../config/index.js";
import { EXIT, type ExitCode, Failure } from "../exit.js";
import type { Context } from "../frame/context.js";
import { type Column, safe, table } from "../frame/text.js";
import type { Run } from "../runs/run.js";
import { runLines } from "../runs/show.js";
import { openedValues } from "./archived-values.js";

const SETTING = "SAGA_ARCHIVE_DIR";
const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

function folderOf(context: Context): string {
  const folder = context.text("dir") ?? readSetting(SETTING);
  if (folder === undefined) throw context.wrong(`name the folder of the archive with --dir, or in ${SETTING}`);
  return folder;
}

async function listed(folder: string): Promise<Listed> {
  try {
    return await listArchive(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new Failure(`the folder ${safe(folder)} cannot be read (${code}): name that of the archive with --dir`);
  }
}

const COLUMNS: readonly Column[] = [
  { title: "FILE", least: 20 },
  { title: "WRITTEN" },
  { title: "HOLDS" },
  { title: "FAMILIES" },
  { title: "RUNS" },
  { title: "BYTES" },
];

/** Of files that have lines of the tenant, where one is asked for. */
function ofTenant(files: readonly ArchivedFile[], tenant: string | undefined): readonly ArchivedFile[] {
  return tenant === undefined ? files : files.filter(({ manifest }) => manifest.tenants.includes(tenant.toLowerCase()));
}

export async function list(context: Context): Promise<ExitCode> {
  const { files, faults } = await listed(folderOf(context));
  const shown = ofTenant(files, context.text("tenant"));
  const { terminal } = context;
  if (context.json) {
    terminal.printJson({ items: shown.map(({ path, manifest }) => ({ path, ...manifest })) });
    return EXIT.succeeded;
  }
  const rows = shown.map(({ path, manifest: of }) =>
    [path, of.created_at, of.holds, of.families, of.runs, of.bytes].map((cell) => ({ text: safe(String(cell)) })),
  );
  if (rows.length === 0) terminal.note("saga: the archive has no files");
  else terminal.print(table(COLUMNS, rows, terminal.width).join("\n"));
  if (faults.length > 0) terminal.note(`saga: ${faults.length} faults: saga archive verify names them`);
  return EXIT.succeeded;
}

export async function verify(context: Context): Promise<ExitCode> {
  const folder = folderOf(context);
  const { files, faults: found, unfinished } = await listed(folder);
  const faults = [...found];
  for (const file of files) {
    context.goOn();
    faults.push(...(await verifyFile(folder, file)));
  }
  const { terminal } = context;
  if (context.json) terminal.printJson({ files: files.length, faults, unfinished });
  else {
    for (const { path, problem } of faults) terminal.print(terminal.paint("red", `${safe(path)}: ${safe(problem)}`));
    for (const path of unfinished) terminal.print(`${safe(path)}: was not finished, and counts for nothing`);
    terminal.print(`${files.length} files, ${faults.length} faults`);
  }
  return faults.length > 0 ? EXIT.failed : EXIT.succeeded;
}

export async function show(context: Context): Promise<ExitCode> {
  const id = context.argument(0).toLowerCase();
  if (!ID.test(id)) throw context.wrong("the run is named by its id");
  const folder = folderOf(context);
  const { files } = await listed(folder);
  const found = await findRun(folder, files, id);
  if (found === undefined)
    throw new Failure(
      `the archive has no run ${id}: it may be kept still, or have been deleted without one`,
      EXIT.failed,
    );
  const { path } = found;
  const { run, events, signals, undo, userTasks } = await openedValues(found, context.terminal);
  const own = files.filter((file) => file.path === path);
  for (const file of own)
    for (const { problem } of await verifyFile(folder, file)) context.terminal.note(`saga: ${path}: ${problem}`);
  const lists = {
    ...(context.flag("events") && { events }),
    ...(context.flag("all") && { events, signals, undo, user_tasks: userTasks }),
  };
  const { terminal } = context;
  if (context.json) {
    terminal.printJson({ ...run, archived: true, archive_file: path, ...lists });
    return EXIT.succeeded;
  }
  terminal.print([...runLines(run as unknown as Run, terminal), `  archived  ${safe(path)}`].join("\n"));
  for (const [name, items] of Object.entries(lists))
    for (const item of items) terminal.print(`  ${name}  ${safe(JSON.stringify(item))}`);
  return EXIT.succeeded;
}
