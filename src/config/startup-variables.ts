// The settings of the provider that gives new runs their startup variables over HTTP. The file provider has one setting, in index.ts.
import type { Environment } from "./environment.js";

export interface StartupProviderConfig {
  /** `SAGA_STARTUP_VARIABLES_URL`. */
  readonly url: string;
  /** `SAGA_STARTUP_VARIABLES_TIMEOUT_MS` (2000). For the whole exchange. */
  readonly timeoutMs: number;
  /** `SAGA_STARTUP_VARIABLES_CACHE_MS` (60000). How long an answer serves; 0: every start asks. */
  readonly cacheMs: number;
  /** `SAGA_STARTUP_VARIABLES_ON_FAILURE` (closed). Whether runs start without an answer. */
  readonly onFailure: "open" | "closed";
  /** `SAGA_STARTUP_VARIABLES_SECRET`. The name of a secret that is sent with the request. */
  readonly secret?: string;
}

const TIMEOUT = { min: 1, max: 30_000 };
const CACHE = { min: 0, max: 86_400_000 };

/** Undefined: there is no such provider. */
export function readStartupProvider(environment: Environment): StartupProviderConfig | undefined {
  const url = environment.url("SAGA_STARTUP_VARIABLES_URL", ["http", "https"]);
  const timeoutMs = environment.integer("SAGA_STARTUP_VARIABLES_TIMEOUT_MS", TIMEOUT) ?? 2_000;
  const cacheMs = environment.integer("SAGA_STARTUP_VARIABLES_CACHE_MS", CACHE) ?? 60_000;
  const onFailure = environment.choice("SAGA_STARTUP_VARIABLES_ON_FAILURE", ["open", "closed"]) ?? "closed";
  const secret = environment.text("SAGA_STARTUP_VARIABLES_SECRET");
  if (url === undefined) return undefined;
  const { username, password } = new URL(url);
  if (username !== "" || password !== "")
    environment.problem("SAGA_STARTUP_VARIABLES_URL", "must not hold credentials: name a secret of SAGA_SECRETS_FILE");
  return { url, timeoutMs, cacheMs, onFailure, ...(secret !== undefined && { secret }) };
}
