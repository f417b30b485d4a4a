// What goes over Redis is sealed: whoever can reach Redis can neither forge a message of a node nor read one. Each message names its channel, the
// time of the database and a number that its sender counts up, and has a MAC over all of them: one that was made by a stranger, for another
// channel, too long ago, or that was received before, is not opened. The key is shared by all nodes of a service.

import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  timingSafeEqual,
} from "node:crypto";
import { randomBytes } from "../ambient.js";
import { isObject } from "./envelope.js";

/** A sealed message, as JSON. A wire format: members may be added, never changed. */
export interface Sealed {
  /** Salt of the sending process, number of the message, database time in epoch ms. */
  readonly by: string;
  /** Of `by`, the channel and the text as it is sent, in Base64url. */
  readonly mac: string;
}

/** A message is refused when the clocks of its sender and its receiver are apart by more, or when it took longer. */
const WINDOW_MS = 30_000;
/** Processes whose last number is remembered. Only those that have the key can add one. */
const MAX_SENDERS = 4_096;

const BODY = "saga bus body";

interface Key {
  readonly secret: string;
  /** Not its bytes: with them each MAC would make the object anew, which costs 12 µs of its 14. */
  readonly mac: KeyObject;
}

interface Sender {
  readonly body: Buffer;
  last: number;
}

export interface SealOptions {
  /** Newest first: it seals, and each of them opens. */
  readonly secrets: readonly string[];
  /** Database time, in epoch ms. */
  readonly now: () => number;
}

export class Seal {
  private readonly keys: readonly Key[];
  /** Random for each process, so that no two of them encrypt under one key, and each may count its nonces. */
  private readonly salt = randomBytes(16);
  private readonly own: Buffer;
  private count = 0;
  private readonly senders = new Map<string, Sender>();

  constructor(private readonly options: SealOptions) {
    this.keys = options.secrets.map((secret) => ({
      secret,
      mac: createSecretKey(derived(secret, "", "saga bus mac")),
    }));
    this.own = derived(this.newest.secret, this.salt, BODY);
  }

  /** For a text that may be read. */
  sign(channel: string, text: string): Sealed {
    const by = `${this.salt.toString("base64url")}.${++this.count}.${this.options.now()}`;
    return { by, mac: macOf(this.newest, { by, channel, text }).toString("base64url") };
  }

  /** For one that may not. */
  encrypt(channel: string, text: string): Sealed & { readonly body: string } {
    const cipher = createCipheriv("aes-256-gcm", this.own, nonceOf(this.count + 1));
    const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
    const body = sealed.toString("base64url");
    return { ...this.sign(channel, body), body };
  }

  /** Whether a node sent the text to the channel, now and for the first time. */
  verify(channel: string, message: Sealed, text: string): boolean {
    return this.accepted(channel, message, text) !== undefined;
  }

  /** The text. Undefined: no node sent it to the channel, now and for the first time. */
  decrypt(channel: string, { body, ...message }: Sealed & { readonly body: string }): string | undefined {
    const sender = this.accepted(channel, message, body);
    if (!sender) return undefined;
    try {
      const bytes = Buffer.from(body, "base64url");
      const decipher = createDecipheriv("aes-256-gcm", sender.body, nonceOf(sender.last), { authTagLength: TAG_BYTES });
      decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
      return decipher.update(bytes.subarray(0, -TAG_BYTES), undefined, "utf8") + decipher.final("utf8");
    } catch {
      return undefined;
    }
  }

  private get newest(): Key {
    return this.keys[0] as Key;
  }

  private accepted(channel: string, { by, mac }: Sealed, text: string): Sender | undefined {
    const given = Buffer.from(mac, "base64url");
    const key = this.keys.find((one) => isEqual(macOf(one, { by, channel, text }), given));
    const [salt = "", count, time] = by.split(".");
    if (!key || !(Math.abs(this.options.now() - Number(time)) <= WINDOW_MS)) return undefined;
    const sender = this.senders.get(salt) ?? senderOf(salt, key);
    // Redis keeps the order of a sender's messages. One that comes late is lost, as any hint may be.
    if (!(Number(count) > sender.last)) return undefined;
    sender.last = Number(count);
    this.remember(salt, sender);
    return sender;
  }

  /** The one that was silent for longest makes room: a process lives for hours, a message for seconds. */
  private remember(salt: string, sender: Sender): void {
    this.senders.delete(salt);
    this.senders.set(salt, sender);
    const [silent] = this.senders.keys();
    if (this.senders.size > MAX_SENDERS && silent !== undefined) this.senders.delete(silent);
  }
}

const TAG_BYTES = 16;

/** Undefined: it is no sealed message. */
export function asSealed(value: unknown): Sealed | undefined {
  return isObject(value) && typeof value.by === "string" && typeof value.mac === "string"
    ? { by: value.by, mac: value.mac }
    : undefined;
}

function derived(secret: string, salt: string | Buffer, purpose: string): Buffer {
  return Buffer.from(hkdfSync("sha256", secret, salt, purpose, 32));
}

function senderOf(salt: string, { secret }: Key): Sender {
  return { body: derived(secret, Buffer.from(salt, "base64url"), BODY), last: 0 };
}

function macOf(
  { mac }: Key,
  { by, channel, text }: { readonly by: string; readonly channel: string; readonly text: string },
): Buffer {
  // A name of a channel has no line break.
  return createHmac("sha256", mac).update(`${by}\n${channel}\n${text}`).digest();
}

function nonceOf(count: number): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeBigUInt64BE(BigInt(count), 4);
  return nonce;
}

function isEqual(left: Buffer, right: Buffer): boolean {
  return left.length === right.length && timingSafeEqual(left, right);
}
