// The credential of a worker, as its options have it: a text, or a function that gets one. The function is asked for every stream and every
// request, so it may return a token that ends soon, and keep it for as long as it is good.
import { Alarm } from "../timer.js";

/** A token, or a function that gets the present one. */
export type Token = string | (() => Promise<string>);

/** A function that takes longer has failed, and is asked again. */
const PROVIDER_MS = 10_000;

export class Credential {
  private asked: Promise<string> | undefined;

  /** An empty text is a setting that was meant to be one: it throws TypeError. */
  constructor(private readonly source: Token | undefined) {
    if (source === "") throw new TypeError("the token is an empty text: give the credential, or leave the option out");
  }

  /** Another token may come after one was refused. */
  get isRenewed(): boolean {
    return typeof this.source === "function";
  }

  /** Undefined: there is none. Rejects as the function does. Streams that ask at the same time get the same one. */
  present(): string | undefined | Promise<string> {
    const { source } = this;
    if (typeof source !== "function") return source;
    this.asked ??= inTime(source).finally(() => {
      this.asked = undefined;
    });
    return this.asked;
  }
}

async function inTime(provide: () => Promise<string>): Promise<string> {
  let alarm: Alarm | undefined;
  const late = new Promise<never>((_, reject) => {
    alarm = new Alarm(PROVIDER_MS, () => reject(new Error(`there was no token after ${PROVIDER_MS} ms`)));
  });
  try {
    const token = await Promise.race([provide(), late]);
    if (typeof token !== "string" || token === "") throw new TypeError("the token is no text");
    return token;
  } finally {
    alarm?.stop();
  }
}
