// The credential of the reports on one dispatch: who holds it may report on that dispatch until its deadline, and may do nothing else. It is a MAC
// over the run, the step, the phase, the attempt, the deadline and the dispatch. It is sent in a header, never in a URL.
import { createHmac, createSecretKey, hkdfSync, type KeyObject, timingSafeEqual } from "node:crypto";

export interface CallbackClaims {
  readonly phase: "forward" | "compensation";
  readonly attempt: number;
  /** Database time, epoch milliseconds. Reports that come later are stale. */
  readonly deadlineAt: number;
  readonly dispatchId: string;
}

export interface ReportedStep {
  readonly runId: string;
  readonly stepId: string;
}

const PHASES = { f: "forward", c: "compensation" } as const;

/** Attempt, phase, deadline, dispatch, MAC. A wire format: what was issued before an update is verified after it. */
const TOKEN = /^(([1-9]\d{0,9})\.([fc])\.(\d{1,16})\.([0-9a-f-]{36}))\.([\w-]{43})$/;

export class CallbackTokens {
  private readonly keys: readonly KeyObject[];

  /** At least one, the newest first: it signs, and each of them verifies. */
  constructor(secrets: readonly string[]) {
    this.keys = secrets.map(keyOf);
  }

  private get newest(): KeyObject {
    return this.keys[0] as KeyObject;
  }

  issue(step: ReportedStep, { phase, attempt, deadlineAt, dispatchId }: CallbackClaims): string {
    const claims = `${attempt}.${phase === "forward" ? "f" : "c"}.${Math.ceil(deadlineAt)}.${dispatchId}`;
    return `${claims}.${macOf(this.newest, step, claims)}`;
  }

  /** Undefined: it was not issued for this step of this run. Past its deadline it still is a token: what comes with it is stale. */
  verify(token: string, step: ReportedStep): CallbackClaims | undefined {
    const [, claims = "", attempt, phase, deadlineAt, dispatchId = "", mac = ""] = TOKEN.exec(token) ?? [];
    // The texts are compared, and not what they decode to: several texts decode to the same bytes.
    if (!this.keys.some((key) => isEqual(macOf(key, step, claims), mac))) return undefined;
    const about = { phase: PHASES[phase as keyof typeof PHASES], dispatchId };
    return { ...about, attempt: Number(attempt), deadlineAt: Number(deadlineAt) };
  }
}

/** Not its bytes: with them each MAC would make the object anew, which costs 12 µs of its 14. Every dispatch has a MAC. */
const keyOf = (secret: string) => createSecretKey(Buffer.from(hkdfSync("sha256", secret, "", "saga callback", 32)));

function macOf(key: KeyObject, { runId, stepId }: ReportedStep, claims: string): string {
  return createHmac("sha256", key)
    .update(JSON.stringify([runId, stepId, claims]))
    .digest("base64url");
}

function isEqual(left: string, right: string): boolean {
  return left.length === right.length && timingSafeEqual(Buffer.from(left), Buffer.from(right));
}
