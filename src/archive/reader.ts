// Reads the files of an archive, without a service or a database: what there is, whether it is whole, and the lines of one run. It writes nothing.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import {
  type ArchiveLine,
  isDataFile,
  isFolder,
  isManifestFile,
  isPart,
  type Manifest,
  manifestName,
  readManifest,
} from "./format.js";

/** A file with its manifest. `path` is that of the data, from the folder of the archive. */
export interface ArchivedFile {
  readonly path: string;
  readonly manifest: Manifest;
}

export interface Fault {
  /** From the folder of the archive. */
  readonly path: string;
  readonly problem: string;
}

export interface Listed {
  /** The oldest first. */
  readonly files: readonly ArchivedFile[];
  /** Manifests that cannot be read, files that are missing, and gaps. */
  readonly faults: readonly Fault[];
  /** What a crash or a refusal has left: nothing of it was deleted from the service because of it. It may be deleted. */
  readonly unfinished: readonly string[];
}

/** Throws what the file system throws if the folder cannot be read. */
export async function listArchive(folder: string): Promise<Listed> {
  const files: ArchivedFile[] = [];
  const faults: Fault[] = [];
  const unfinished: string[] = [];
  for (const day of (await readdir(folder)).filter(isFolder).sort()) {
    const names = await readdir(join(folder, day));
    const there = new Set(names);
    for (const name of names) {
      const path = `${day}/${name}`;
      if (isPart(name) || (isDataFile(name) && !there.has(manifestName(name)))) unfinished.push(path);
      if (!isManifestFile(name)) continue;
      try {
        const manifest = readManifest(await readFile(join(folder, path), "utf8"), name);
        if (there.has(manifest.file)) files.push({ path: `${day}/${manifest.file}`, manifest });
        else faults.push({ path: `${day}/${manifest.file}`, problem: "the file is missing: its manifest is there" });
      } catch (error) {
        faults.push({ path, problem: `the manifest cannot be read: ${(error as Error).message}` });
      }
    }
  }
  files.sort((a, b) => (key(a) < key(b) ? -1 : 1));
  faults.push(...(await gaps(folder, files)));
  return { files, faults, unfinished: unfinished.sort() };
}

const key = ({ manifest, path }: ArchivedFile) => `${manifest.created_at} ${path}`;

/** Each manifest names the one before it. What the oldest one names may have been moved away. */
async function gaps(folder: string, files: readonly ArchivedFile[]): Promise<readonly Fault[]> {
  const there = new Set(files.map(({ path }) => manifestName(path)));
  const faults: Fault[] = [];
  for (const { manifest } of files.slice(1)) {
    const { previous } = manifest;
    if (previous === null || there.has(previous)) continue;
    const isFaulty = await readFile(join(folder, previous)).then(
      () => true,
      () => false,
    );
    // One that cannot be read, or whose data is missing, is a fault already.
    if (!isFaulty) faults.push({ path: previous, problem: `it is missing: ${manifest.file} was written after it` });
  }
  return faults;
}

/** What is wrong with the file: empty if it is as it was written. */
export async function verifyFile(folder: string, { path, manifest }: ArchivedFile): Promise<readonly Fault[]> {
  const hash = createHash("sha256");
  let [bytes, lines] = [0, 0];
  try {
    for await (const chunk of createReadStream(join(folder, path)) as AsyncIterable<Buffer>) {
      hash.update(chunk);
      bytes += chunk.length;
      for (const byte of chunk) if (byte === NEWLINE) lines++;
    }
  } catch (error) {
    return [{ path, problem: `it cannot be read: ${(error as NodeJS.ErrnoException).code}` }];
  }
  if (bytes !== manifest.bytes)
    return [{ path, problem: `it has ${bytes} bytes, and was written with ${manifest.bytes}` }];
  if (hash.digest("hex") !== manifest.sha256)
    return [{ path, problem: "its checksum is not that of its manifest: it was changed" }];
  return lines === manifest.lines
    ? []
    : [{ path, problem: `it has ${lines} lines, and its manifest says ${manifest.lines}` }];
}

const NEWLINE = 0x0a;

/** The lines of these files with the text in them, in their order, each with the path of its file. */
export async function* linesOf(
  folder: string,
  files: readonly ArchivedFile[],
  text: string,
): AsyncGenerator<{ readonly path: string; readonly line: ArchiveLine }> {
  for (const { path } of files)
    for await (const line of rawLines(join(folder, path)))
      if (line.includes(text)) yield { path, line: JSON.parse(line.toString()) as ArchiveLine };
}

/** Split at line feeds alone: a text may have other characters that end a line elsewhere. */
async function* rawLines(path: string): AsyncGenerator<Buffer> {
  let begun: Buffer[] = [];
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      begun.push(chunk.subarray(from, end));
      yield begun.length === 1 ? (begun[0] as Buffer) : Buffer.concat(begun);
      begun = [];
      from = end + 1;
    }
    if (from < chunk.length) begun.push(chunk.subarray(from));
  }
}

/** What an archive has of one run. */
export interface ArchivedRun {
  /** The file of the run itself. */
  readonly path: string;
  readonly run: ArchiveLine["data"];
  readonly events: readonly ArchiveLine["data"][];
  readonly signals: readonly ArchiveLine["data"][];
  readonly undo: readonly ArchiveLine["data"][];
  readonly userTasks: readonly ArchiveLine["data"][];
}

/**
 * Undefined: there is no such run. One that was archived twice, because of a crash, has the same lines in both files, of which the later one is taken. Its audit rows
 * may be in several files: those of a week that fell before the run had ended are in one of their own.
 */
export async function findRun(
  folder: string,
  files: readonly ArchivedFile[],
  id: string,
): Promise<ArchivedRun | undefined> {
  const events = new Map<unknown, ArchiveLine["data"]>();
  const found = new Map<string, ArchiveLine[]>();
  for await (const { path, line } of linesOf(folder, files, `"${id}"`)) {
    if (line.run === id && line.kind === "event") events.set(line.data.seq, line.data);
    else if (line.run === id || line.data.run_id === id) found.set(path, [...(found.get(path) ?? []), line]);
  }
  const whole = [...found].findLast(([, lines]) => lines.some(({ kind, run }) => kind === "run" && run === id));
  const [path, lines] = whole ?? [];
  const run = lines?.find(({ kind, run: of }) => kind === "run" && of === id);
  if (path === undefined || lines === undefined || run === undefined) return undefined;
  const of = (kind: ArchiveLine["kind"]) => lines.filter((line) => line.kind === kind).map(({ data }) => data);
  return {
    ...{ path, run: run.data, signals: of("signal"), undo: of("undo"), userTasks: of("user_task") },
    events: [...events.values()].sort((a, b) => Number(a.seq) - Number(b.seq)),
  };
}
