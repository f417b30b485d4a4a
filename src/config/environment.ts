// Reads settings by name from an environment, and collects every problem. It knows how settings are written (`_FILE` forms, empty
// strings, numbers, URLs); the settings themselves are defined in index.ts.
import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { Suggestions } from "../../machines/attribute/suggestion.js";
import { completedBy, DatabaseUrlError, parseDatabaseUrl } from "./database-url.js";

export type Env = Readonly<Record<string, string | undefined>>;

/** Characters of a key that an operator sets: as many as a random one of 128 bits has in hexadecimal. */
const SHORTEST_KEY = 32;

/** A problem is noted and reading continues, so that one start reports all problems. */
export class Environment {
  readonly problems: string[] = [];
  private readonly known = new Set<string>();

  constructor(private readonly env: Env) {}

  /** The text of a setting, from the environment or from the file that `<name>_FILE` names. An empty string is absent. */
  text(name: string): string | undefined {
    this.known.add(name);
    const direct = this.env[name] || undefined;
    const path = this.env[`${name}_FILE`] || undefined;
    if (path === undefined) return direct;
    if (direct !== undefined) {
      this.problem(name, `and ${name}_FILE are both set: keep one of them`);
      return direct;
    }
    return this.fileText(name, path);
  }

  private fileText(name: string, path: string): string | undefined {
    let content: string;
    try {
      // Editors and shells of Windows write a byte order mark.
      content = readFileSync(path, "utf8")
        .replace(/^\uFEFF/, "")
        .replace(/\r?\n$/, "");
    } catch (error) {
      this.problem(`${name}_FILE`, `names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`);
      return undefined;
    }
    // An empty secret file is a deployment accident. Read as "absent" it could turn authentication off.
    if (content === "") this.problem(`${name}_FILE`, "names an empty file");
    return content || undefined;
  }

  integer(name: string, range: { min: number; max: number }): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= range.min && value <= range.max) return value;
    this.problem(name, `must be a whole number from ${range.min} to ${range.max}`);
    return undefined;
  }

  /** One key, or two by a comma: the newest first. */
  keys(name: string): readonly string[] | undefined {
    const keys = this.text(name)?.split(",");
    if (keys === undefined) return undefined;
    if (keys.length <= 2 && keys.every((key) => key.length >= SHORTEST_KEY)) return keys;
    this.problem(name, `must be one key of at least ${SHORTEST_KEY} characters, or two by a comma, the newest first`);
    return undefined;
  }

  flag(name: string): boolean | undefined {
    const text = this.text(name)?.toLowerCase();
    if (text === undefined) return undefined;
    if (["on", "true", "1", "yes"].includes(text)) return true;
    if (["off", "false", "0", "no"].includes(text)) return false;
    this.problem(name, "must be on or off");
    return undefined;
  }

  choice<T extends string>(name: string, choices: readonly T[]): T | undefined {
    const text = this.text(name);
    const found = choices.find((choice) => choice === text);
    if (text !== undefined && found === undefined) this.problem(name, `must be one of ${choices.join(", ")}`);
    return found;
  }

  /** A URL of one of these schemes. The problem does not show the value: it may hold a password. */
  url(name: string, schemes: readonly string[]): string | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    if (URL.canParse(text) && schemes.includes(new URL(text).protocol.slice(0, -1))) return text;
    this.problem(name, `must be a URL that begins with ${schemes.map((scheme) => `${scheme}://`).join(" or ")}`);
    return undefined;
  }

  /** A URL of a database, as libpq takes it: what it leaves open, the variables of libpq say. */
  databaseUrl(name: string): string | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    try {
      const { url, variables } = completedBy(this.env, text);
      const problem = problemOf(url);
      if (problem === undefined) return url;
      // The URL may be right, and the variable wrong.
      const own = variables.length === 0 ? problem : problemOf(text);
      if (own === undefined) this.problem(`${name} with ${variables.join(", ")} of the environment`, problem);
      else this.problem(name, own);
    } catch (error) {
      if (!(error instanceof DatabaseUrlError)) throw error;
      this.problem(name, error.message);
    }
    return undefined;
  }

  /** A comma-separated list of addresses, CIDR blocks and host names. */
  hosts(name: string): readonly string[] | undefined {
    return this.list(name, isHostRule, "an address, CIDR block or host name");
  }

  /** A comma-separated list of addresses and CIDR blocks. */
  blocks(name: string): readonly string[] | undefined {
    const isBlock = (item: string) => isHostRule(item) && isIP(item.split("/")[0] ?? "") !== 0;
    return this.list(name, isBlock, "an address or a CIDR block");
  }

  /** A comma-separated list of origins, as browsers write them. */
  origins(name: string): readonly string[] | undefined {
    return this.list(name, isOrigin, "an origin such as https://console.example");
  }

  private list(name: string, isValid: (item: string) => boolean, expected: string): readonly string[] | undefined {
    const items = this.text(name)
      ?.split(",")
      .map((item) => item.trim());
    const invalid = items?.filter((item) => !isValid(item)) ?? [];
    for (const item of invalid) this.problem(name, `has an entry that is not ${expected}: "${item}"`);
    return invalid.length === 0 ? items : undefined;
  }

  /** A name of an earlier release is refused: what it promised would be missing silently. The sentence names its successor. */
  retired(name: string, sentence: string): void {
    const set = [name, `${name}_FILE`].filter((each) => Object.hasOwn(this.env, each) && this.env[each]);
    for (const each of set) this.problem(each, sentence);
  }

  /** Names that others read: they are not misspelt settings. */
  know(...names: readonly string[]): void {
    for (const name of names) this.known.add(name);
  }

  problem(name: string, sentence: string): void {
    this.problems.push(`${name} ${sentence}`);
  }

  /**
   * Names with our prefix that are not settings, most likely misspelt ones, each with the one that was probably meant. Call this after all settings
   * were read.
   */
  unknownNames(prefix: string): { readonly name: string; readonly hint: string }[] {
    const isKnown = (name: string) => this.known.has(name) || this.known.has(name.replace(/_FILE$/, ""));
    const suggestions = new Suggestions();
    const hintFor = (name: string) => {
      // A name with the suffix is compared with names that have it.
      const suffix = name.endsWith("_FILE") ? "_FILE" : "";
      return suggestions.for(name, suffix === "" ? this.known : [...this.known].map((known) => known + suffix));
    };
    return Object.keys(this.env)
      .filter((name) => name.startsWith(prefix) && !isKnown(name))
      .sort()
      .map((name) => ({ name, hint: hintFor(name) }));
  }
}

function problemOf(databaseUrl: string): string | undefined {
  try {
    parseDatabaseUrl(databaseUrl);
    return undefined;
  } catch (error) {
    if (!(error instanceof DatabaseUrlError)) throw error;
    return error.message;
  }
}

function isOrigin(item: string): boolean {
  return /^https?:/.test(item) && URL.canParse(item) && new URL(item).origin === item;
}

function isHostRule(item: string): boolean {
  const [address = "", bits, ...rest] = item.split("/");
  const version = isIP(address);
  if (version !== 0) return rest.length === 0 && (bits === undefined || isPrefix(bits, version === 4 ? 32 : 128));
  // Digits and dots alone are a mistyped address, not a name.
  return (
    bits === undefined &&
    /^(?=.{1,253}$)(?![\d.]+$)[a-z\d]([a-z\d-]*[a-z\d])?(\.[a-z\d]([a-z\d-]*[a-z\d])?)*$/i.test(item)
  );
}

function isPrefix(bits: string, max: number): boolean {
  return /^\d{1,3}$/.test(bits) && Number(bits) <= max;
}
