// The verifier of the kinds of bearers that SAGA_AUTH lists: API keys and tokens. A bearer is of one kind by its form, and none is tried as
// another one.
import type { Sql } from "postgres";
import { ConfigError, KEYS_FILE, type TokenSettings } from "../config/index.js";
import type { Log } from "../log.js";
import { KEY_PREFIX } from "./key-text.js";
import { ApiKeys } from "./keys.js";
import type { Principal } from "./principal.js";
import { type DigestVerifier, Unauthenticated } from "./verifier.js";

export interface BearerOptions {
  /** Absent: no API key is accepted. */
  readonly apiKeys?: boolean;
  /** Absent: no token is accepted. */
  readonly tokens?: TokenSettings;
  readonly sql: Sql;
  readonly log: Log;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
}

interface TokenParts {
  readonly verifier: DigestVerifier;
  readonly keys: { start(): Promise<void>; stop(): Promise<void> };
}

export class Bearers implements DigestVerifier {
  private readonly apiKeys: ApiKeys | undefined;

  private constructor(
    private readonly options: BearerOptions,
    private readonly tokens: TokenParts | undefined,
  ) {
    this.apiKeys = options.apiKeys ? new ApiKeys(options) : undefined;
  }

  /** Loads what is needed: jose only where tokens are accepted. */
  static async open(options: BearerOptions): Promise<Bearers> {
    return new Bearers(options, options.tokens && (await openTokens(options.tokens, options)));
  }

  /** The start does not wait for an issuer that is away. Throws ConfigError if the file of the keys has none. */
  async start(): Promise<void> {
    this.apiKeys?.start();
    try {
      await this.tokens?.keys.start();
    } catch (error) {
      if (this.options.tokens && "file" in this.options.tokens.keysAt)
        throw new ConfigError([`${KEYS_FILE} names a file that cannot be used: ${(error as Error).message}`]);
    }
  }

  /** Complete on return, safe twice and before `start`. */
  async stop(): Promise<void> {
    await Promise.all([this.apiKeys?.stop(), this.tokens?.keys.stop()]);
  }

  verify(bearer: string, digest?: string): Principal | Promise<Principal> {
    const verifier = bearer.startsWith(KEY_PREFIX) ? this.apiKeys : this.tokens?.verifier;
    if (!verifier) throw new Unauthenticated("a kind of credential that is not accepted");
    return verifier.verify(bearer, digest);
  }

  /** This node has revoked the key: it need not wait for its poll. */
  keyRevoked(id: string): void {
    this.apiKeys?.revoked(id);
  }
}

async function openTokens(settings: TokenSettings, { log, now }: BearerOptions): Promise<TokenParts> {
  const [{ IssuerKeys, issuerAt, keysInFile }, { Tokens }] = await Promise.all([
    import("./issuer-keys.js"),
    import("./tokens.js"),
  ]);
  const { keysAt, refreshMs } = settings;
  const source = "url" in keysAt ? issuerAt(keysAt.url) : keysInFile(keysAt.file);
  const keys = new IssuerKeys({ source, refreshMs, log });
  return { verifier: new Tokens({ settings, keys, now }), keys };
}
