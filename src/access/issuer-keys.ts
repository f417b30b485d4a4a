// The public keys of the issuer of tokens: read, checked, refreshed, and found by the header of a token. It verifies no token.
//
// jose has a remote key set, which is not used: it bounds neither the size nor the number of keys, reads them while a request waits each time
// they are stale, forgets them when that fails, and does not say that a key has gone.

import { createPublicKey, type JsonWebKey, type KeyObject } from "node:crypto";
import { setMaxListeners } from "node:events";
import { readFile, stat } from "node:fs/promises";
import { isObject } from "../../machines/index.js";
import { performance, timeoutSignal } from "../ambient.js";
import { exchange } from "../egress/exchange.js";
import { Guard } from "../egress/guard.js";
import { overloaded } from "../errors.js";
import { parseJson } from "../json-text.js";
import type { Log } from "../log.js";
import { backoff } from "../sdk/backoff.js";
import { WorkLoop } from "../work/loop.js";
import { Unauthenticated } from "./verifier.js";

const MOST_BYTES = 256 * 1024;
const MOST_KEYS = 100;
const MOST_ID = 1_000;
const READ_WITHIN_MS = 5_000;
/** How long keys are used while the issuer is away. */
const KEPT_MS = 86_400_000;
/** For unknown key ids the issuer is asked this often, however many there are. */
const ASKED_AGAIN_MS = 30_000;
const RETRY_MS = { base: 1_000, cap: 30_000 };
/** Below, a key of RSA can be broken; above, one verification takes long. */
const RSA_BITS = { min: 2_048, max: 8_192 };

/** The algorithms by the type of key, or by its curve. All are asymmetric. */
const ALGORITHMS: Readonly<Record<string, readonly string[]>> = {
  RSA: ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
  "P-256": ["ES256"],
  "P-384": ["ES384"],
  "P-521": ["ES512"],
  Ed25519: ["EdDSA", "Ed25519"],
};
const KNOWN: ReadonlySet<string> = new Set(Object.values(ALGORITHMS).flat());

/** Members of a JWK that only the owner of the key, or both sides of a shared one, may know. */
const PRIVATE = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];
/** The members that a public key is made of. */
const PUBLIC = ["kty", "crv", "n", "e", "x", "y"];

export interface IssuerKey {
  readonly algorithms: readonly string[];
  readonly key: KeyObject;
  /** Absent: it has none. */
  readonly id?: string;
  /** Aborted when the issuer does not have it any more. */
  readonly gone: AbortSignal;
}

/** What the header of a token says of its key. */
export interface KeyHeader {
  readonly algorithm: string;
  readonly id?: string;
}

export interface KeySource {
  /** For the log. */
  readonly name: string;
  /** The text of the key set. Throws where it cannot be read. */
  read(signal: AbortSignal): Promise<string>;
}

export interface IssuerKeysOptions {
  readonly source: KeySource;
  readonly refreshMs: number;
  readonly log: Log;
  /** Monotonic milliseconds. */
  readonly elapsed?: () => number;
  readonly readWithinMs?: number;
}

type Held = IssuerKey & { readonly going: AbortController };

export class IssuerKeys {
  /** By all that they are. */
  private keys: ReadonlyMap<string, Held> = new Map();
  /** When they were read. */
  private readAt = Number.NEGATIVE_INFINITY;
  private failures = 0;
  private askedAt = Number.NEGATIVE_INFINITY;
  private asking: Promise<void> | undefined;
  private readonly loop: WorkLoop;
  private readonly elapsed: () => number;

  constructor(private readonly options: IssuerKeysOptions) {
    this.elapsed = options.elapsed ?? (() => performance.now());
    const pauseMs = () => (this.failures === 0 ? options.refreshMs : backoff(this.failures - 1, RETRY_MS));
    const polls = { pauseMs, round: () => this.read() };
    this.loop = new WorkLoop({ what: `keys of tokens (${options.source.name})`, log: options.log, polls });
  }

  /** Throws what the first read throws; the keys are read again all the same. */
  async start(): Promise<void> {
    try {
      await this.refresh();
    } finally {
      this.loop.start();
    }
  }

  stop(): Promise<void> {
    return this.loop.stop();
  }

  /** Reads the keys, now. */
  refresh(): Promise<void> {
    return this.loop.now();
  }

  /** Throws Unauthenticated, or SagaError 503 if it is unknown while the issuer is away. */
  keyFor(header: KeyHeader): IssuerKey | Promise<IssuerKey> {
    if (!KNOWN.has(header.algorithm)) throw new Unauthenticated("algorithm of a token");
    return this.find(header) ?? this.findAfterRefresh(header);
  }

  private find({ id, algorithm }: KeyHeader): IssuerKey | undefined {
    if (this.elapsed() - this.readAt > KEPT_MS) this.replace(new Map());
    const fitting = [...this.keys.values()].filter(
      (held) => held.algorithms.includes(algorithm) && (id === undefined || held.id === id),
    );
    // Of several it cannot be told which is meant.
    return fitting.length === 1 ? fitting[0] : undefined;
  }

  private async findAfterRefresh(header: KeyHeader): Promise<IssuerKey> {
    if (!this.asking && this.elapsed() - this.askedAt >= ASKED_AGAIN_MS) {
      this.askedAt = this.elapsed();
      this.asking = this.refresh()
        .catch(() => {})
        .finally(() => {
          this.asking = undefined;
        });
    }
    await this.asking;
    const found = this.find(header);
    if (found) return found;
    if (this.failures > 0) throw overloaded("the keys of tokens cannot be read now; try again");
    throw new Unauthenticated("unknown key of a token");
  }

  private async read(): Promise<void> {
    const { source, readWithinMs = READ_WITHIN_MS } = this.options;
    const began = this.elapsed();
    try {
      this.replace(this.keysIn(await source.read(timeoutSignal(readWithinMs))));
      this.readAt = began;
      this.failures = 0;
    } catch (error) {
      this.failures++;
      throw error;
    }
  }

  /** A key that is still there stays the same one, with what was verified by it. */
  private replace(keys: ReadonlyMap<string, Held>): void {
    for (const [whole, { going }] of this.keys) if (!keys.has(whole)) going.abort();
    this.keys = keys;
  }

  private keysIn(text: string): ReadonlyMap<string, Held> {
    const keys = new Map<string, Held>();
    let unfit = 0;
    for (const jwk of setIn(text)) {
      const whole = JSON.stringify(["kid", "alg", ...PUBLIC].map((name) => jwk[name] ?? null));
      const held = this.keys.get(whole) ?? heldOf(jwk);
      if (held && !holdsSecrets(jwk)) keys.set(whole, held);
      else if (holdsSecrets(jwk))
        this.options.log.warn(
          { kty: textOf(jwk.kty) },
          "the issuer of tokens shows a key that must be secret: not used",
        );
      else unfit++;
    }
    if (unfit > 0) this.options.log.debug({ unfit }, "keys of the issuer that verify no token");
    if (keys.size === 0) throw new Error("there is no key in it that verifies tokens");
    return keys;
  }
}

type Jwk = Readonly<Record<string, unknown>>;

/** Messages never quote what was read. */
function setIn(text: string): readonly Jwk[] {
  if (Buffer.byteLength(text) > MOST_BYTES) throw new Error(`the key set is over ${MOST_BYTES} bytes`);
  let set: unknown;
  try {
    set = parseJson(text);
  } catch {
    throw new Error("the key set is not JSON");
  }
  const keys = isObject(set) ? set.keys : undefined;
  if (!Array.isArray(keys) || !keys.every(isObject)) throw new Error("the key set has no list of keys");
  if (keys.length > MOST_KEYS) throw new Error(`the key set has more than ${MOST_KEYS} keys`);
  return keys as readonly Jwk[];
}

const holdsSecrets = (jwk: Jwk) => PRIVATE.some((name) => Object.hasOwn(jwk, name));

/** Undefined: it is not for signatures, or of no kind that is used. */
function heldOf(jwk: Jwk): Held | undefined {
  const { kid, use, key_ops: operations, alg } = jwk;
  if (kid !== undefined && (typeof kid !== "string" || kid.length > MOST_ID)) return undefined;
  if (use !== undefined && use !== "sig") return undefined;
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes("verify"))) return undefined;
  const all = ALGORITHMS[textOf(jwk.kty === "RSA" ? jwk.kty : jwk.crv)] ?? [];
  const algorithms = alg === undefined ? all : all.filter((each) => each === alg);
  const key = algorithms.length === 0 ? undefined : publicKeyOf(jwk);
  if (!key) return undefined;
  const going = new AbortController();
  // One for each stream of a token that it verifies.
  setMaxListeners(0, going.signal);
  return { algorithms, key, going, gone: going.signal, ...(kid !== undefined && { id: kid as string }) };
}

function publicKeyOf(jwk: Jwk): KeyObject | undefined {
  const members = Object.fromEntries(PUBLIC.flatMap((name) => (jwk[name] === undefined ? [] : [[name, jwk[name]]])));
  try {
    const key = createPublicKey({ key: members as JsonWebKey, format: "jwk" });
    const bits = key.asymmetricKeyDetails?.modulusLength;
    return bits !== undefined && (bits < RSA_BITS.min || bits > RSA_BITS.max) ? undefined : key;
  } catch {
    return undefined;
  }
}

const textOf = (value: unknown) => (typeof value === "string" ? value : "");

/** The issuer over HTTP. Its address is the operator's, so it may be a private one; nothing else is connected to. */
export function issuerAt(url: string): KeySource {
  const { hostname } = new URL(url);
  const named = hostname.replace(/^\[|\]$/g, "");
  const guard = new Guard({ admits: (host) => host === named });
  const headers = { accept: "application/json", "accept-encoding": "identity", "user-agent": "saga-orchestrator" };
  const read = async (signal: AbortSignal) => {
    const outgoing = { method: "GET", url, headers, followRedirects: false } as const;
    const { status, body } = await exchange(guard, { ...outgoing, signal, maxBytes: MOST_BYTES, overlong: "fails" });
    if (status !== 200) throw new Error(`${hostname} answered ${status}`);
    return body.toString("utf8");
  };
  return { name: hostname, read };
}

/** It is read again like an issuer, so that keys can be replaced while the service runs. */
export function keysInFile(path: string): KeySource {
  const read = async () => {
    const { size } = await stat(path);
    if (size > MOST_BYTES) throw new Error(`the file is over ${MOST_BYTES} bytes`);
    return readFile(path, "utf8");
  };
  return { name: "file", read };
}
