// The settings of the command `saga`: which service it talks to, where its profiles are, and whether it writes colours. The service itself has none
// of them, and only knows their names, because both often run in one environment.
import { homedir } from "node:os";
import { join } from "node:path";
import { type Env, Environment } from "./environment.js";

/** Where the service is. */
export const SERVICE_URL = "SAGA_URL";
/** The API key, or another bearer token. */
export const SERVICE_TOKEN = "SAGA_TOKEN";

export interface CommandSettings {
  /** `SAGA_URL`, without a slash at its end. */
  readonly url?: string;
  /** `SAGA_TOKEN`, or the content of the file that `SAGA_TOKEN_FILE` names. */
  readonly token?: string;
  /** `$XDG_CONFIG_HOME/saga/config.json`; without that variable below `~/.config`. */
  readonly profilesFile: string;
  /** False with a `NO_COLOR` that is not empty, or with `TERM=dumb`. */
  readonly mayColour: boolean;
  /** `TERM=dumb`: the terminal moves no cursor. */
  readonly isDumb: boolean;
}

export interface CommandSettingsRead {
  readonly settings: CommandSettings;
  /** What is wrong with `SAGA_URL` and `SAGA_TOKEN`. A command that needs neither works without them. */
  readonly problems: readonly string[];
}

export function readCommandSettings(env: Env = process.env): CommandSettingsRead {
  const environment = new Environment(env);
  const url = environment.url(SERVICE_URL, ["http", "https"])?.replace(/\/+$/, "");
  const token = environment.text(SERVICE_TOKEN);
  // The specification of XDG: a relative path is to be ignored.
  const base = env.XDG_CONFIG_HOME?.startsWith("/") ? env.XDG_CONFIG_HOME : join(env.HOME || homedir(), ".config");
  const isDumb = env.TERM === "dumb";
  return {
    settings: {
      ...(url !== undefined && { url }),
      ...(token !== undefined && { token }),
      profilesFile: join(base, "saga", "config.json"),
      mayColour: (env.NO_COLOR ?? "") === "" && !isDumb,
      isDumb,
    },
    problems: environment.problems,
  };
}
