// The files of an archive without a database: what is written is read back, whatever is in it; a change, a cut and a loss are found; and a disk that refuses
// leaves no file that counts.
import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ArchiveLine } from "../../src/archive/format.js";
import { findRun, listArchive, verifyFile } from "../../src/archive/reader.js";
import { ArchiveError, ArchiveFolder, DISK, type Disk } from "../../src/archive/writer.js";
import { uuidv7 } from "../../src/ids.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "saga-archive-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const AT = new Date("2026-11-30T20:02:41.123Z");
/** Characters that end a line elsewhere, that JSON escapes, and that take several bytes. */
const TEXT = 'a\u2028b\u2029c\u0085d\r\n\0"\\🍵';

const line = (
  run: string,
  kind: ArchiveLine["kind"] = "run",
  data: ArchiveLine["data"] = { id: run },
): ArchiveLine => ({
  ...{ kind, run, root: run, tenant_id: null, data },
});

const write = (lines: readonly ArchiveLine[], at = AT, archive = new ArchiveFolder(folder)) =>
  archive.write({ holds: "runs", at }, async (sink) => {
    for (const each of lines) await sink.add(each);
  });

const paths = () =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => /json|part/.test(name))
    .sort();

async function faultsIn(): Promise<readonly string[]> {
  const { files, faults } = await listArchive(folder);
  const found = [...faults];
  for (const file of files) found.push(...(await verifyFile(folder, file)));
  return found.map(({ path, problem }) => `${path.replace(/.*\//, "")}: ${problem}`);
}

describe("the files of an archive", () => {
  it("have masks in the place of secret values", async () => {
    const run = uuidv7();
    await write([
      line(run, "run", { id: run, inputs: { pin: { $secret: "canary" }, card: { $enc: { k: "canary" } } } }),
    ]);
    const { files } = await listArchive(folder);
    expect(await findRun(folder, files, run)).toMatchObject({ run: { inputs: { pin: "***", card: "***" } } });
    for (const path of paths()) expect(readFileSync(join(folder, path), "utf8")).not.toContain("canary");
  });

  it("are read back as they were written, with every character", async () => {
    const [run, other] = [uuidv7(), uuidv7()];
    const data = { id: run, text: TEXT, amount: 12.35, none: null, list: [], nested: { "a.b": TEXT } };
    const manifest = await write([
      line(run, "run", data),
      line(run, "event", { run_id: run, seq: 1, text: TEXT }),
      line(run, "signal", { run_id: run, payload: TEXT }),
      line(other, "run", { id: other, mentions: run }),
    ]);
    expect(manifest).toMatchObject({ format: 1, families: 2, runs: 2, lines: 4, previous: null, tenants: [""] });
    const { files, faults, unfinished } = await listArchive(folder);
    expect([files.length, faults, unfinished]).toEqual([1, [], []]);
    expect(await findRun(folder, files, run)).toMatchObject({
      run: data,
      events: [{ run_id: run, seq: 1, text: TEXT }],
      signals: [{ run_id: run, payload: TEXT }],
      ...{ undo: [], userTasks: [] },
    });
    expect((await findRun(folder, files, other))?.run).toEqual({ id: other, mentions: run });
    expect(await findRun(folder, files, uuidv7())).toBeUndefined();
    expect(await faultsIn()).toEqual([]);
  });

  it("have a line of any length, and lines that end where a chunk of reading ends", async () => {
    const runs = Array.from({ length: 200 }, () => uuidv7());
    const lines = runs.map((run, nth) => line(run, "run", { id: run, text: "é".repeat(nth * 997) }));
    await write(lines);
    const { files } = await listArchive(folder);
    for (const nth of [0, 1, 65, 130, 199])
      expect((await findRun(folder, files, runs[nth] ?? ""))?.run).toEqual(lines[nth]?.data);
    expect(await faultsIn()).toEqual([]);
  });

  it("of a run that was archived twice are one run, and events of several files follow each other once", async () => {
    const run = uuidv7();
    const event = (seq: number) => line(run, "event", { run_id: run, seq });
    await write([event(1), event(2)]);
    await write([line(run), event(2), event(3)], new Date(AT.getTime() + 1));
    await write([line(run), event(2), event(3)], new Date(AT.getTime() + 86_400_000));
    const { files } = await listArchive(folder);
    expect((await findRun(folder, files, run))?.events.map(({ seq }) => seq)).toEqual([1, 2, 3]);
    expect(await faultsIn()).toEqual([]);
  });

  it("are not there where nothing was added", async () => {
    expect(await write([])).toBeUndefined();
    expect(paths()).toEqual([]);
  });
});

describe("verifying an archive", () => {
  let file: string;
  beforeEach(async () => {
    for (let nth = 0; nth < 3; nth++)
      await write([line(uuidv7()), line(uuidv7())], new Date(AT.getTime() + nth * 86_400_000));
    file = join(folder, (await listArchive(folder)).files[1]?.path ?? "");
    expect(await faultsIn()).toEqual([]);
  });

  it("finds a byte that was flipped, wherever it is", async () => {
    const whole = readFileSync(file);
    for (const at of [0, 1, Math.floor(whole.length / 2), whole.length - 2, whole.length - 1]) {
      const changed = Buffer.from(whole);
      changed[at] = (changed[at] ?? 0) ^ 1;
      writeFileSync(file, changed);
      expect(await faultsIn(), `byte ${at}`).toEqual([expect.stringMatching(/checksum/)]);
    }
    writeFileSync(file, whole);
    expect(await faultsIn()).toEqual([]);
  });

  it("finds a file that was cut off, or has something behind its end", async () => {
    const whole = readFileSync(file);
    for (const length of [0, 1, whole.length - 1]) {
      writeFileSync(file, whole);
      truncateSync(file, length);
      expect(await faultsIn(), `${length} bytes`).toEqual([expect.stringMatching(`it has ${length} bytes`)]);
    }
    writeFileSync(file, whole);
    appendFileSync(file, "\n");
    expect(await faultsIn()).toHaveLength(1);
  });

  it("finds a file that is missing, and one that is missing with its manifest", async () => {
    rmSync(file);
    expect(await faultsIn()).toEqual([expect.stringMatching(/the file is missing/)]);
    rmSync(file.replace(/ndjson$/, "json"));
    expect(await faultsIn()).toEqual([expect.stringMatching(/it is missing: runs-.* was written after it/)]);
  });

  it("finds nothing wrong where the oldest were moved away", async () => {
    rmSync(join(folder, "2026-11-30"), { recursive: true });
    expect(await faultsIn()).toEqual([]);
  });

  it("finds a manifest that is broken, or of a later release", async () => {
    const manifest = file.replace(/ndjson$/, "json");
    const whole = readFileSync(manifest, "utf8");
    for (const [text, problem] of [
      ["{", /is no JSON/],
      ["null", /has no format/],
      [whole.replace('"format": 1', '"format": 2'), /has the format 2/],
      [whole.replace(/"sha256": ".*",/, ""), /members are missing/],
      [whole.replace(/"file": "runs-/, '"file": "../runs-'), /it is the manifest of/],
    ] as const) {
      writeFileSync(manifest, text);
      expect(await faultsIn(), text).toEqual([expect.stringMatching(problem)]);
    }
  });
});

describe("a disk that refuses", () => {
  const refusing = (more: Partial<Disk>): ArchiveFolder => new ArchiveFolder(folder, { ...DISK, ...more });
  const noSpace = () => Promise.reject(Object.assign(new Error("no space left"), { code: "ENOSPC", syscall: "write" }));

  /** The nth use of the disk fails, for each n, until there is no nth. */
  function failingAt(nth: number): { archive: ArchiveFolder; uses: () => number } {
    let uses = 0;
    const count = <T extends (...args: never[]) => Promise<unknown>>(act: T): T =>
      ((...args: never[]) => (++uses === nth ? noSpace() : act(...args))) as T;
    const open: Disk["open"] = async (...args) => {
      const handle = await count(DISK.open)(...args);
      for (const name of ["writeFile", "sync"] as const) {
        const act = handle[name].bind(handle) as never;
        Object.assign(handle, { [name]: count(act) });
      }
      return handle;
    };
    return {
      archive: refusing({ open, rename: count(DISK.rename), mkdir: count(DISK.mkdir) as never }),
      uses: () => uses,
    };
  }

  it("leaves no file that counts, at whatever moment it refuses, and says why", async () => {
    const run = uuidv7();
    let refused = 0;
    for (let nth = 1; ; nth++) {
      rmSync(folder, { recursive: true, force: true });
      mkdirSync(folder);
      const { archive, uses } = failingAt(nth);
      const outcome = await write([line(run)], AT, archive).catch((error: unknown) => error);
      if (uses() < nth) break;
      refused++;
      expect(outcome).toBeInstanceOf(ArchiveError);
      expect(String(outcome)).toMatch(/cannot be written, so no run is deleted: ENOSPC/);
      expect((await listArchive(folder)).files, `use ${nth}`).toEqual([]);
      expect(paths(), `use ${nth}`).toEqual([]);
    }
    expect(refused).toBeGreaterThan(8);
  });

  it("is a folder that is a file, or cannot be made", async () => {
    const path = join(folder, "file");
    writeFileSync(path, "");
    for (const place of [path, join(path, "below")])
      await expect(write([line(uuidv7())], AT, new ArchiveFolder(place))).rejects.toThrow(/ENOTDIR|EEXIST/);
  });

  it("leaves what fill throws as it is, and no file", async () => {
    const work = new ArchiveFolder(folder).write({ holds: "runs", at: AT }, async (sink) => {
      await sink.add(line(uuidv7()));
      throw new RangeError("the database is away");
    });
    await expect(work).rejects.toThrow(RangeError);
    expect(paths()).toEqual([]);
  });

  const disk = join(tmpdir(), `saga-small-disk-${process.pid}`);
  const canMount = (() => {
    if (process.getuid?.() !== 0) return false;
    try {
      mkdirSync(disk, { recursive: true });
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], { stdio: "ignore" });
      execFileSync("umount", [disk], { stdio: "ignore" });
      return true;
    } catch {
      return false;
    }
  })();

  it.runIf(canMount)("is a file system that is full, and takes more once there is room", async () => {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=256k", "tmpfs", disk]);
    try {
      const archive = new ArchiveFolder(disk);
      const large = () => line(uuidv7(), "run", { text: "x".repeat(100_000) });
      await write([large()], AT, archive);
      await expect(write([large(), large(), large()], AT, archive)).rejects.toThrow(/ENOSPC/);
      const { files, unfinished } = await listArchive(disk);
      expect([files.length, unfinished]).toEqual([1, []]);
      await write([line(uuidv7())], AT, archive);
      expect((await listArchive(disk)).files).toHaveLength(2);
    } finally {
      execFileSync("umount", [disk]);
      if (existsSync(disk)) rmSync(disk, { recursive: true });
    }
  });
});
