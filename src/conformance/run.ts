// Plays all cases with one worker, one after the other, and reports. Each case has a limit of time; a worker that ends is started again.
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { Bench } from "./bench.js";
import type { Case } from "./case.js";
import { CASES } from "./cases/index.js";
import { type CaseReport, NotApplicable, type Report, Violation } from "./rule.js";

export interface ConformanceOptions {
  /** The program of the worker, and its arguments. Absent: someone else starts it, with the addresses of `onOpen`. */
  readonly command?: readonly [string, ...string[]] | undefined;
  /** The folder that it is started in. Default: the present one. */
  readonly cwd?: string | undefined;
  /** Its environment, beside SAGA_GRPC, SAGA_API and SAGA_TOKEN. */
  readonly env?: NodeJS.ProcessEnv | undefined;
  /** Cases to play, by name. Default: all. Throws TypeError if there is no such case. */
  readonly only?: readonly string[] | undefined;
  /** How long the worker may take to be there, in milliseconds. Default a minute; without `command` an hour. */
  readonly startMs?: number | undefined;
  /** Aborted: no further case is played, and the worker is ended at once. */
  readonly signal?: AbortSignal | undefined;
  /** The service is open. */
  readonly onOpen?: ((addresses: Readonly<Record<string, string>>) => void) | undefined;
  /** A case has ended. */
  readonly onCase?: ((report: CaseReport) => void) | undefined;
  /** What the worker prints. */
  readonly onOutput?: ((text: string) => void) | undefined;
}

/** No case takes longer, whatever the worker does. */
const CASE_MS = 120_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** So many cases in a row without any stream: there is no worker. */
const HOPELESS = 2;

/** Resolves whatever the worker does. Rejects if the ports cannot be opened. */
export async function runConformance(options: ConformanceOptions): Promise<Report> {
  const { command, cwd, env, only, onOutput } = options;
  const cases = chosen(only);
  const began = performance.now();
  const startMs = options.startMs ?? (command ? MINUTE_MS : HOUR_MS);
  const token = randomBytes(16).toString("hex");
  const bench = new Bench({ command, cwd, env, onOutput, token, startMs });
  const reports: CaseReport[] = [];
  // A case that waits for a worker then sees that it has ended.
  const interrupt = () => bench.interrupt();
  options.signal?.addEventListener("abort", interrupt, { once: true });
  try {
    await bench.open();
    options.onOpen?.(bench.addresses);
    for (const each of cases) {
      if (options.signal?.aborted) break;
      const isHopeless = reports.length >= HOPELESS && bench.streams.every(({ hello }) => hello === undefined);
      const report = isHopeless
        ? reportOf(each, new NotApplicable("no stream has said hello"), 0)
        : await play(bench, each, startMs);
      reports.push(report);
      options.onCase?.(report);
    }
  } finally {
    options.signal?.removeEventListener("abort", interrupt);
    await bench.close();
  }
  const workerId = bench.streams.findLast(({ hello }) => hello !== undefined)?.hello?.worker_id;
  return {
    conforms: reports.every(({ verdict }) => verdict !== "failed"),
    ...(workerId !== undefined && { worker_id: workerId }),
    cases: reports,
    ms: Math.round(performance.now() - began),
  };
}

function chosen(only: readonly string[] | undefined): readonly Case[] {
  const unknown = only?.find((name) => !CASES.some((each) => each.name === name));
  if (unknown !== undefined)
    throw new TypeError(`there is no case "${unknown}": they are ${CASES.map(({ name }) => name).join(", ")}`);
  return CASES.filter(({ name }) => only?.includes(name) ?? true);
}

async function play(bench: Bench, each: Case, startMs: number): Promise<CaseReport> {
  const began = performance.now();
  const limit = new AbortController();
  const tooLong = delay(startMs + CASE_MS, undefined, { signal: limit.signal, ref: false }).then(
    () => new Violation(`the case did not come to its end within ${(startMs + CASE_MS) / 1_000} s`),
    () => undefined,
  );
  let found: unknown;
  try {
    found = await Promise.race([each.run(bench).then(() => undefined), tooLong, bench.interrupted]);
  } catch (error) {
    found = error;
  }
  limit.abort();
  bench.settle();
  if (found !== undefined && !(found instanceof Violation) && !(found instanceof NotApplicable)) throw found;
  return reportOf(each, found, performance.now() - began);
}

function reportOf(
  { name, rule, section, advice }: Case,
  found: Violation | NotApplicable | undefined,
  ms: number,
): CaseReport {
  const about = { rule, section: `docs/protocol.md#${section}` };
  const took = Math.round(ms);
  if (found instanceof Violation) return { name, verdict: "failed", ...about, seen: found.message, advice, ms: took };
  if (found) return { name, verdict: "not_applicable", ...about, seen: found.message, ms: took };
  return { name, verdict: "passed", ...about, ms: took };
}
