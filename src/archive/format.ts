// What is in the files of an archive: the lines, and the manifest beside each file. A durable format: archives outlive releases, so a member never
// changes its meaning, and a reader passes over what it does not know.
import { basename } from "node:path";
import type { JsonObject } from "../../machines/index.js";

/** Counts up if a release writes what older readers would misunderstand. */
export const ARCHIVE_FORMAT = 1;

/** Of what a line tells. `data` is what the API answered of it: the run itself, or an item of its events, signals, undo list or user tasks. */
export const LINE_KINDS = ["run", "event", "signal", "undo", "user_task"] as const;
export type LineKind = (typeof LINE_KINDS)[number];

/** One line of a file. The lines of a family follow each other: the root, then its children, each run before what belongs to it. */
export interface ArchiveLine {
  readonly kind: LineKind;
  /** The run that it belongs to, and the root of its family: the same for a root. */
  readonly run: string;
  readonly root: string;
  /** Null: of no tenant. */
  readonly tenant_id: string | null;
  readonly data: JsonObject;
}

/** Beside each file. A file without one was not finished: nothing of it was deleted from the service by then. */
export interface Manifest {
  readonly format: number;
  /** The name of the file, in the same folder. */
  readonly file: string;
  /** The manifest that was written before this one, with its folder: `2026-11-30/runs-….json`. Null: there was none in the archive. */
  readonly previous: string | null;
  /** RFC 3339, by the clock of the database. */
  readonly created_at: string;
  /** `runs`: whole families. `events`: audit rows of runs that are still kept, whose week was past retention. */
  readonly holds: "runs" | "events";
  readonly families: number;
  readonly runs: number;
  readonly lines: number;
  readonly bytes: number;
  /** Of the whole file, in hexadecimal. */
  readonly sha256: string;
  /** The tenants whose lines it has, and "" for lines of none. */
  readonly tenants: readonly string[];
}

const FOLDER = /^\d{4}-\d{2}-\d{2}$/;
const FILE = /^(?:runs|events)-\d{8}T\d{9}Z-[0-9a-f]{8}\.ndjson$/;

export const isFolder = (name: string): boolean => FOLDER.test(name);
export const isDataFile = (name: string): boolean => FILE.test(name);
/** `….ndjson` has its manifest in `….json`. */
export const manifestName = (file: string): string => file.replace(/\.ndjson$/, ".json");
export const isManifestFile = (name: string): boolean =>
  name.endsWith(".json") && FILE.test(name.replace(/\.json$/, ".ndjson"));
/** A file that is being written. */
export const partName = (name: string): string => `.${name}.part`;
export const isPart = (name: string): boolean => /^\..*\.part$/.test(name);

/** In the order of time: `runs-20261130T200241123Z-5f0c11aa.ndjson`. */
export function fileName(holds: Manifest["holds"], at: Date, token: string): string {
  return `${holds}-${at.toISOString().replace(/[-:.]/g, "")}-${token}.ndjson`;
}

/** Throws an Error that says what is wrong. */
export function readManifest(text: string, name: string): Manifest {
  let read: Partial<Manifest> | null;
  try {
    read = JSON.parse(text) as Partial<Manifest> | null;
  } catch {
    throw new Error("it is no JSON");
  }
  if (typeof read?.format !== "number") throw new Error("it has no format");
  if (read.format > ARCHIVE_FORMAT)
    throw new Error(`it has the format ${read.format}, and this release reads up to ${ARCHIVE_FORMAT}`);
  const { file, sha256, bytes, lines, tenants } = read;
  const isWhole = typeof sha256 === "string" && typeof bytes === "number" && typeof lines === "number";
  if (typeof file !== "string" || !isWhole || !Array.isArray(tenants)) throw new Error("members are missing");
  if (manifestName(file) !== basename(name)) throw new Error(`it is the manifest of ${JSON.stringify(file)}`);
  return read as Manifest;
}
