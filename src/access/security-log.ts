// The security log: who was refused what, and what was done with keys, secrets and other people's runs. It is a part of the log whose lines have
// `audit: true`. A line names a credential by its id and never has a token, and a flood of refusals costs a bounded number of lines.
import { performance } from "../ambient.js";
import type { Logger } from "../log.js";
import { credentialId, type Principal } from "./principal.js";

/** Lines about refusals within a minute: of one address, and of all. The next line after a minute says how many were left out. */
const MOST_OF_ADDRESS = 60;
const MOST = 3_000;
const MINUTE_MS = 60_000;
/** Uses of secrets that are noted within a minute: by name, workflow and tenant. */
const MOST_USES = 1_000;

/** What a door knows of a request that it refused. */
export interface Refusal {
  readonly status: number | string;
  readonly reason: string;
  /** Absent: no credential was accepted. */
  readonly principal?: Principal | undefined;
  readonly address: string;
  /** As the service names it, never the URL: `GET /api/v1/sagas/:id`, or a method of gRPC. */
  readonly route: string;
  readonly requestId?: string;
}

/** A run has used a secret. Its value is not here. */
export interface SecretUse {
  readonly secret: string;
  readonly workflow: string;
  /** Null: the run has none. */
  readonly tenant: string | null;
}

export class SecurityLog {
  private readonly log: Pick<Logger, "info" | "warn">;
  private minute = Number.NEGATIVE_INFINITY;
  private lines = 0;
  private omitted = 0;
  private readonly linesOf = new Map<string, number>();
  /** When a use of a secret was noted last, the oldest first. */
  private readonly uses = new Map<string, number>();
  private omittedUses = 0;

  constructor(
    log: Logger,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.log = log.child({ audit: true });
  }

  refused({ principal, requestId, ...facts }: Refusal): void {
    const omitted = this.admit(facts.address);
    if (omitted === undefined) return;
    const named = {
      ...(principal && { credential: credentialId(principal) }),
      ...(requestId && { request_id: requestId }),
    };
    this.log.warn({ ...facts, ...named, ...(omitted > 0 && { omitted }) }, "refused");
  }

  /** Something that a person who asks later wants to find: a key was made, a definition published, a run erased. */
  did(what: string, principal: Principal, facts: Readonly<Record<string, unknown>>): void {
    this.log.info({ ...facts, credential: credentialId(principal) }, what);
  }

  /** The same, by a bulk job: the line about the job has the address. */
  jobDid(what: string, actor: string, facts: Readonly<Record<string, unknown>>): void {
    this.log.info({ ...facts, credential: actor }, what);
  }

  /** A run uses a secret for each of its requests: each name, workflow and tenant has one line a minute. */
  secretUsed({ secret, workflow, tenant }: SecretUse): void {
    const now = this.now();
    for (const [use, at] of this.uses) {
      if (now - at < MINUTE_MS) break;
      this.uses.delete(use);
    }
    const use = JSON.stringify([secret, workflow, tenant]);
    if (this.uses.has(use)) return;
    if (this.uses.size >= MOST_USES) {
      this.omittedUses++;
      return;
    }
    this.uses.set(use, now);
    const omitted = this.omittedUses;
    this.omittedUses = 0;
    this.log.info(
      { secret_ref: secret, workflow, ...(tenant !== null && { tenant }), ...(omitted > 0 && { omitted }) },
      "secret used",
    );
  }

  /** How many lines were left out before this one. Undefined: this one is left out. */
  private admit(address: string): number | undefined {
    const now = this.now();
    if (now - this.minute >= MINUTE_MS) {
      this.minute = now;
      this.lines = 0;
      this.linesOf.clear();
    }
    const ofAddress = (this.linesOf.get(address) ?? 0) + 1;
    if (this.lines >= MOST || ofAddress > MOST_OF_ADDRESS) {
      this.omitted++;
      return undefined;
    }
    this.lines++;
    this.linesOf.set(address, ofAddress);
    const { omitted } = this;
    this.omitted = 0;
    return omitted;
  }
}
