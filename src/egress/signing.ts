// The secrets that messages to workers and receivers of webhooks are signed with, as SAGA_SIGNING_SECRET has them: each service has its own,
// because one that can verify a signature can also make it. It signs nothing; signature.ts does.
import { hkdfSync } from "node:crypto";
import { ConfigError } from "../config/index.js";
import { parseJson } from "../json-text.js";
import type { Log } from "../log.js";
import { keyOf } from "./signature.js";

export const SIGNING_SETTING = "SAGA_SIGNING_SECRET";

/** Whom webhooks are signed for, if their steps name no secret. No service has this name. */
export const WEBHOOK = "@webhook";

/** The names that services register under (`NEW_ID_PATTERN` of machines/, which would bring the machine into the command `saga`). */
const SERVICE = /^(?!\.{1,2}$)[A-Za-z0-9_.:-]{1,128}$/;

/** The context of HKDF is this and the name. It must never change: workers keep what was derived with it. */
const CONTEXT = "saga/signing/v1/";
const DERIVED_BYTES = 32;

/** Each worker has a secret that is derived from the one of the setting, and could try short ones until it finds it. */
const SHORTEST_SECRET = 32;

/** Anyone who registers services chooses how many there are: further ones are not warned about, nor are their derived secrets kept. */
const MOST_SERVICES = 1_000;

export class Signing {
  private readonly warned = new Set<string>();

  constructor(
    /** The secrets of a service, or of `@webhook`, the newest first. None: what it gets is not signed. */
    readonly of: (receiver: string) => readonly string[],
    /** Without the setting nothing is signed, and nothing is missing; from one secret each receiver's is derived. */
    private readonly isMap: boolean,
  ) {}

  /** Why a message to the receiver is not signed although others are. */
  gap(receiver: string): string | undefined {
    if (!this.isMap || this.of(receiver).length > 0) return undefined;
    return receiver === WEBHOOK
      ? `${SIGNING_SETTING} has no entry for ${WEBHOOK}: webhooks that name no secret are not signed`
      : `${SIGNING_SETTING} has no entry for the service ${receiver}: calls of its HTTP workers are not signed`;
  }

  /** Once for each service. */
  warnOfGap(service: string, log: Pick<Log, "warn">): void {
    if (this.warned.has(service) || this.warned.size >= MOST_SERVICES) return;
    const gap = this.gap(service);
    if (gap === undefined) return;
    this.warned.add(service);
    log.warn(gap);
  }
}

export const isReceiver = (name: string) => name === WEBHOOK || SERVICE.test(name);

/**
 * The setting is a JSON object of secrets by receiver, each a text or a list of the new and the old one; or one secret, from which those of
 * all receivers are derived. `hide` gets every secret, also those of the first thousand services that are derived later. Throws ConfigError, which shows no secret.
 */
export function readSigning(
  setting: string | undefined,
  hide: (secrets: readonly string[]) => void = () => {},
): Signing {
  if (setting === undefined) return new Signing(() => [], false);
  // A list is no secret that anyone means.
  if (/^\s*[[{]/.test(setting)) {
    const entries = entriesOf(setting);
    hide([...entries.values()].flat());
    return new Signing((receiver) => entries.get(receiver) ?? [], true);
  }
  const problem = secretProblem(setting) ?? (setting.length < SHORTEST_SECRET ? TOO_SHORT : undefined);
  if (problem !== undefined) throw new ConfigError([`${SIGNING_SETTING} ${problem}`]);
  const of = deriving(setting, hide);
  hide([setting, ...of(WEBHOOK)]);
  return new Signing(of, false);
}

const TOO_SHORT = `must have at least ${SHORTEST_SECRET} characters: the secrets of all services are derived from it`;

function deriving(secret: string, hide: (secrets: readonly string[]) => void): (receiver: string) => readonly string[] {
  const derived = new Map<string, readonly string[]>();
  return (receiver) => {
    const known = derived.get(receiver);
    if (known) return known;
    const made = [derivedSecret(secret, receiver)];
    if (derived.size >= MOST_SERVICES) return made;
    derived.set(receiver, made);
    hide(made);
    return made;
  };
}

/** `whsec_` and the Base64 of 32 bytes: HKDF with SHA-256 of the secret's bytes, without a salt. */
function derivedSecret(secret: string, receiver: string): string {
  const bytes = hkdfSync("sha256", keyOf(secret) ?? "", "", `${CONTEXT}${receiver}`, DERIVED_BYTES);
  return `whsec_${Buffer.from(bytes).toString("base64")}`;
}

function entriesOf(text: string): Map<string, readonly string[]> {
  const entries = new Map<string, readonly string[]>();
  const problems: string[] = [];
  for (const [index, [name, entry]] of Object.entries(parsed(text)).entries()) {
    const secrets: readonly unknown[] = Array.isArray(entry) ? entry : [entry];
    // A secret may stand where a name belongs, so what is no name is not shown.
    if (!isReceiver(name))
      problems.push(`${SIGNING_SETTING}: the name of entry ${index + 1} must be that of a service, or ${WEBHOOK}`);
    else if (!areSecrets(secrets)) problems.push(`${SIGNING_SETTING}: ${name}: ${entryProblem(secrets)}`);
    else entries.set(name, secrets);
  }
  if (problems.length > 0) throw new ConfigError(problems);
  return entries;
}

function areSecrets(secrets: readonly unknown[]): secrets is readonly string[] {
  return entryProblem(secrets) === undefined;
}

function entryProblem(secrets: readonly unknown[]): string | undefined {
  if (secrets.length < 1 || secrets.length > 2 || !secrets.every((secret) => typeof secret === "string"))
    return "must be a secret, or a list of the new and the old one";
  return secrets.map(secretProblem).find((problem) => problem !== undefined);
}

function secretProblem(secret: string): string | undefined {
  const key = keyOf(secret);
  if (key === undefined) return "must have Base64 after whsec_";
  return key.length === 0 ? "must not be empty" : undefined;
}

/** Reports no message of the JSON parser, because it would quote the setting. */
function parsed(text: string): object {
  let document: unknown;
  try {
    document = parseJson(text);
  } catch {
    throw new ConfigError([`${SIGNING_SETTING} begins as JSON does, and is not JSON`]);
  }
  if (typeof document === "object" && document !== null && !Array.isArray(document)) return document;
  throw new ConfigError([`${SIGNING_SETTING} must be one secret, or a JSON object of secrets by service`]);
}
