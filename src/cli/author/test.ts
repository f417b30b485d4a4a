// `saga test`: rehearses workflows with mocks from files, once or again at every change. The rehearsal itself is the service's own machine.
import { watch as watchFolder } from "node:fs";
import { readdir, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { EXIT, type ExitCode, Failure } from "../exit.js";
import type { Context } from "../frame/context.js";
import { safe } from "../frame/text.js";
import { LoadFailure } from "./load.js";
import { runFile, type Verdict } from "./rehearsals.js";

const ENDING = ".saga-test.json";
/** Editors write a file in several steps. */
const SETTLED_MS = 150;

export async function test(context: Context): Promise<ExitCode | undefined> {
  const run = context.text("fromRun");
  if (run !== undefined) return fromRun(context, run);
  const files = await filesIn(context.arguments(0));
  const { code, files: parts } = await once(context, files);
  if (!context.flag("watch")) return code;
  return again(context, files, parts);
}

/** Named ones, or all below this folder. */
async function filesIn(given: readonly string[]): Promise<readonly string[]> {
  if (given.length > 0) return given;
  const found = await below(".");
  if (found.length > 0) return found.sort();
  throw new Failure(
    `there is no file *${ENDING} here or below: name one, or make one with saga test --from-run RUN --out order${ENDING}`,
  );
}

async function below(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const nested = await Promise.all(
    entries.map((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory() && entry.name !== "node_modules" && !entry.name.startsWith(".")) return below(path);
      return entry.isFile() && entry.name.endsWith(ENDING) ? [path] : [];
    }),
  );
  return nested.flat();
}

interface Round {
  readonly code: ExitCode;
  readonly files: readonly string[];
}

async function once(context: Context, files: readonly string[]): Promise<Round> {
  const { terminal, json } = context;
  const verdicts: Verdict[] = [];
  const parts = new Set(files.map((file) => resolve(file)));
  for (const file of files) {
    context.goOn();
    const tested = await runFile(file, context).catch((error: unknown) => {
      // In the watch mode a broken file is to be mended, not to end the command.
      if (!(error instanceof Failure) || !context.flag("watch")) throw error;
      return {
        verdicts: [{ file, name: "(the file)", passed: false, problems: [error.message] }],
        files: error instanceof LoadFailure ? error.files : [],
      };
    });
    for (const part of tested.files) parts.add(part);
    verdicts.push(...tested.verdicts);
    if (!json) for (const verdict of tested.verdicts) for (const line of linesOf(verdict)) terminal.print(line);
  }
  const failed = verdicts.filter(({ passed }) => !passed).length;
  const counts = { passed: verdicts.length - failed, failed };
  if (json && context.flag("watch")) terminal.printJsonLine({ ...counts, tests: verdicts });
  else if (json) terminal.printJson({ ...counts, tests: verdicts });
  else terminal.print(`${counts.passed} passed, ${failed} failed`);
  return { code: failed === 0 ? EXIT.succeeded : EXIT.failed, files: [...parts] };

  function linesOf({ file, name, passed, problems }: Verdict): string[] {
    const mark = passed ? terminal.paint("green", "✓") : terminal.paint("red", "✗");
    return [`${mark} ${file}: ${safe(name)}`, ...problems.map((problem) => `    ${safe(problem)}`)];
  }
}

/** Until Ctrl-C. A change is seen from before it is said that one is waited for, and while the tests run. */
async function again(context: Context, files: readonly string[], first: readonly string[]): Promise<ExitCode> {
  let [parts, waits] = [first, [waitForChange(first, context.signal)]];
  for (;;) {
    context.terminal.note(`saga: waiting for a change of ${parts.length} files; Ctrl-C ends`);
    await Promise.race(waits.map(({ over }) => over));
    for (const wait of waits) wait.end();
    context.goOn();
    const meanwhile = waitForChange(parts, context.signal);
    ({ files: parts } = await once(context, files));
    // They may be made of other files now.
    waits = [meanwhile, waitForChange(parts, context.signal)];
  }
}

interface Wait {
  /** There was a change, or Ctrl-C, or `end`. */
  readonly over: Promise<void>;
  readonly end: () => void;
}

/** Folders are watched, because editors replace files. */
function waitForChange(files: readonly string[], signal: AbortSignal): Wait {
  const wanted = new Set(files);
  let settled: NodeJS.Timeout | undefined;
  let end = () => {};
  const over = new Promise<void>((done) => {
    const watchers = [...new Set(files.map((file) => dirname(file)))].map((folder) =>
      watchFolder(folder, (_, name) => {
        if (name !== null && !wanted.has(join(folder, name))) return;
        clearTimeout(settled);
        settled = setTimeout(() => end(), SETTLED_MS);
      }),
    );
    end = () => {
      clearTimeout(settled);
      for (const watcher of watchers) watcher.close();
      signal.removeEventListener("abort", end);
      done();
    };
    if (signal.aborted) end();
    else signal.addEventListener("abort", end);
  });
  return { over, end };
}

async function fromRun(context: Context, id: string): Promise<ExitCode> {
  const { testOf } = await import("./from-run.js");
  const { terminal } = context;
  const { file, missing } = await testOf(await context.service(), id);
  const text = `${JSON.stringify(file, null, 2)}\n`;
  const out = context.text("out");
  if (out === undefined) terminal.print(text);
  else {
    await writeFile(out, text, { flag: "wx" }).catch((error: NodeJS.ErrnoException) => {
      throw new Failure(
        error.code === "EEXIST"
          ? `${out} exists already: name another file`
          : `${out} cannot be written (${error.code})`,
      );
    });
    terminal.print(`${out}: saga test ${out}`);
  }
  for (const each of missing) terminal.note(`saga: missing: ${each}`);
  return EXIT.succeeded;
}
