// Where a syntax error is: the line by which Node begins what it prints of one. For ES modules it says so nowhere else.
import { execFile } from "node:child_process";

/** A path and a line, alone. */
export const PLACE = /^(?:file:\/\/)?((?:\/|[A-Za-z]:).*:\d+)\n/;

/** The first of these files with a syntax error. */
export async function placeOfSyntaxError(files: readonly string[]): Promise<string | undefined> {
  for (const file of files.filter((path) => /\.[cm]?js$/.test(path))) {
    const [, place] = PLACE.exec(await checked(file)) ?? [];
    if (place !== undefined) return place;
  }
  return undefined;
}

/** What Node prints of a file that it does not run. */
const checked = (file: string): Promise<string> =>
  new Promise((resolve) => {
    execFile(process.execPath, ["--check", file], (_error, _stdout, stderr) => resolve(stderr));
  });
