// `saga dev`: from its options to its exit code. It listens to the signals of a terminal as long as it runs; what it runs is session.ts.
import { resolve } from "node:path";
import { readDevSettings } from "../../config/dev.js";
import { ConfigError } from "../../config/index.js";
import type { Run } from "../command.js";
import { EXIT, type ExitCode } from "../exit.js";
import { DevRunning } from "./lock.js";
import { Printer } from "./printer.js";
import { type Project, ProjectError, readProject } from "./project.js";
import { Session } from "./session.js";

export interface DevOptions {
  /** The project's. Default: the working directory. */
  readonly folder?: string;
  /** `-o json`: lines as they came, also on a terminal. */
  readonly json?: boolean;
}

/** Standard output, and standard error for what stops the command before it runs. */
export interface DevIo {
  readonly stdout: Pick<NodeJS.WriteStream, "write"> & { readonly isTTY?: boolean };
  readonly stderr: Pick<NodeJS.WriteStream, "write">;
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** `npx` passes a Ctrl-C on that its child has got from the terminal, too. */
const ONE_SIGNAL_MS = 700;

export const dev: Run = ({ json }) => runDev({ json }, process);

/** Resolves with the exit code when nothing of it is left: 0 stopped, 1 the service has ended, 2 wrong use or settings. */
export async function runDev(
  { folder: given, json = false }: DevOptions,
  { stdout, stderr }: DevIo,
): Promise<ExitCode> {
  const folder = resolve(given ?? ".");
  const signals = listen();
  try {
    const settings = readDevSettings(folder);
    const project: Project = await readProject(folder);
    const isPretty = stdout.isTTY === true && !json;
    const printer = new Printer({
      isPretty,
      hasColours: isPretty && !settings.isPlain,
      write: (text) => void stdout.write(text),
    });
    if (isPretty) printer.say("info", `starting in ${folder}`);
    const { stop, hurry } = signals;
    return await new Session({ folder, settings, printer, stop, hurry }, project).run();
  } catch (error) {
    stderr.write(`saga: ${sentenceOf(error)}\n`);
    return EXIT.usage;
  } finally {
    signals.close();
  }
}

function sentenceOf(error: unknown): string {
  if (error instanceof ConfigError) return error.problems.join("; ");
  if (error instanceof DevRunning || error instanceof ProjectError) return error.message;
  const { code, path } = error as NodeJS.ErrnoException;
  if ((code === "EACCES" || code === "EROFS" || code === "ENOTDIR") && path !== undefined)
    return `${path} cannot be written to (${code}): run saga dev in a folder of yours`;
  throw error;
}

/** The first signal stops in order, the next one hurries. */
function listen() {
  const stopping = new AbortController();
  const hurrying = new AbortController();
  let since = 0;
  const onSignal = () => {
    if (!stopping.signal.aborted) {
      since = performance.now();
      stopping.abort();
    } else if (performance.now() - since > ONE_SIGNAL_MS) hurrying.abort();
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  const close = () => {
    for (const signal of SIGNALS) process.off(signal, onSignal);
  };
  return { stop: stopping.signal, hurry: hurrying.signal, close };
}
