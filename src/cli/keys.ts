// `saga key create`, `list` and `revoke`: API keys by the database, without the service. The first key is made here, because the API asks for one.
import { existsSync } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import type { KeyGrant } from "../access/index.js";
import { isRole, ROLES } from "../access/roles.js";
import { listIn, outputIn, readArguments } from "./arguments.js";
import type { Command } from "./command.js";
import { withDatabase } from "./database.js";
import { Failure } from "./exit.js";

const WHERE = `Uses the database of DATABASE_URL, or the embedded one in SAGA_DATA_DIR, which is started if no service runs on it.`;

const CREATE = "key create";
const GRANTED = {
  name: {},
  roles: {},
  tenant: {},
  tenants: {},
  workflows: {},
  services: {},
  secrets: {},
  "expires-at": {},
  file: {},
  output: { short: "o" },
};

export const createKey: Command = {
  name: CREATE,
  parameters: "--name <name> --roles <role,...>",
  summary: "Makes an API key and prints it, once",
  details: `  --name <name>             what it is for
  --roles <role,...>        of ${ROLES.join(", ")}
  --tenant <uuid>           whose it is; without one the roles platform or scrape are needed
  --tenants <uuid,...>      the only tenants that a key with the role platform serves
  --workflows <id,...>      ids, or prefixes and *; without them all
  --services <name,...>     likewise, that a worker may serve; without them none
  --secrets <name,...>      likewise, that definitions may name; without them none
  --expires-at <time>       RFC 3339; without it the key does not expire
  --file <path>             writes the key into this file, for its user alone, and prints the id. If
                            there is such a file, no key is made: the command may run at every start
  -o json                   prints the key with what it may, as JSON
${WHERE}`,
  async run(args) {
    const { options, positionals } = readArguments(CREATE, args, GRANTED);
    if (positionals.length > 0) throw new Failure(`${CREATE} takes options only: see saga ${CREATE} --help`);
    const output = outputIn(CREATE, options.output);
    const grant = await grantIn(options);
    const { keyItem } = await import("../store/lists/api-keys.js");
    const { file } = options;
    if (file === undefined) {
      const { key, view } = await make(grant);
      return output === "text" ? key : JSON.stringify({ ...keyItem(view), key }, null, 2);
    }
    if (existsSync(file)) return output === "text" ? `there is a key in ${file}` : "null";
    const { view } = await writtenTo(file, () => make(grant));
    return output === "text" ? view.id : JSON.stringify(keyItem(view), null, 2);
  },
};

async function make(grant: KeyGrant) {
  const { ANYONE, makeApiKey } = await import("../access/index.js");
  const { DatabaseClock } = await import("../clock.js");
  const work = async (sql: Parameters<typeof makeApiKey>[0]) => {
    const clock = new DatabaseClock();
    await clock.measure(sql);
    return makeApiKey(sql, ANYONE, grant, { now: clock.now(), createdBy: "command" });
  };
  return withDatabase(work, { migrates: true });
}

/** The file appears with its key in it, and where it cannot be written, no key is made. */
async function writtenTo<T extends { readonly key: string }>(file: string, made: () => Promise<T>): Promise<T> {
  // One that was killed may have left this one.
  const beside = `${file}.new`;
  const refused = (error: NodeJS.ErrnoException) => {
    throw new Failure(`${CREATE}: ${file} cannot be written (${error.code})`);
  };
  const handle: FileHandle = await open(beside, "w", 0o600).catch(refused);
  try {
    const key = await made();
    await handle.writeFile(`${key.key}\n`);
    await handle.sync();
    await rename(beside, file);
    return key;
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
}

type Given = Readonly<Partial<Record<keyof typeof GRANTED, string>>>;

/** The form of what is asked for; whether it makes sense is checked where keys are made. */
async function grantIn(given: Given): Promise<KeyGrant> {
  const { expiryIn, MOST_NAME, MOST_PATTERNS, PATTERN } = await import("../access/index.js");
  const { isUuid } = await import("../../machines/index.js");
  const wrong = (sentence: string) => new Failure(`${CREATE}: ${sentence}`);
  const { name, tenant, "expires-at": time } = given;
  if (name === undefined || name === "" || name.length > MOST_NAME)
    throw wrong(`--name must have 1 to ${MOST_NAME} characters`);
  const roles = listIn(given.roles) ?? [];
  if (roles.length === 0 || !roles.every(isRole)) throw wrong(`--roles must be some of ${ROLES.join(", ")}`);
  const uuid = (option: string, text: string) => {
    if (!isUuid(text)) throw wrong(`${option} must be a UUID`);
    return text.toLowerCase();
  };
  const pattern = new RegExp(PATTERN);
  const patterns = (option: "workflows" | "services" | "secrets") => {
    const list = listIn(given[option]);
    if (list && (list.length > MOST_PATTERNS || !list.every((item) => pattern.test(item))))
      throw wrong(`--${option} must be at most ${MOST_PATTERNS} ids, or beginnings of ids and *, by commas`);
    return list && { [option]: list };
  };
  const expiresAt = time === undefined ? undefined : expiryIn(time);
  if (time !== undefined && expiresAt === undefined) throw wrong("--expires-at must be a time of RFC 3339");
  const tenants = listIn(given.tenants)?.map((text) => uuid("--tenants", text));
  return {
    ...{ name, roles },
    ...(tenant !== undefined && { tenantId: uuid("--tenant", tenant) }),
    ...(tenants && { tenants }),
    ...patterns("workflows"),
    ...patterns("services"),
    ...patterns("secrets"),
    ...(expiresAt !== undefined && { expiresAt }),
  };
}

const LIST = "key list";
const PAGE_ROWS = 500;

export const listKeys: Command = {
  name: LIST,
  parameters: "",
  summary: "Lists API keys, without their secrets",
  details: `  --tenant <uuid>           only those of a tenant
  -o json                   as JSON
${WHERE}`,
  async run(args) {
    const { options, positionals } = readArguments(LIST, args, { tenant: {}, output: { short: "o" } });
    if (positionals.length > 0) throw new Failure(`${LIST} takes options only: see saga ${LIST} --help`);
    const output = outputIn(LIST, options.output);
    const { isUuid } = await import("../../machines/index.js");
    const { tenant } = options;
    if (tenant !== undefined && !isUuid(tenant)) throw new Failure(`${LIST}: --tenant must be a UUID`);
    const { listKeys: read } = await import("../store/lists/api-keys.js");
    const items = await withDatabase(async (sql) => {
      const all: KeyItem[] = [];
      const filter = tenant === undefined ? {} : { tenantId: tenant.toLowerCase() };
      for (let cursor: string | undefined; ; ) {
        const asked = { limit: PAGE_ROWS, offset: 0, ...(cursor !== undefined && { cursor }) };
        const page = await read(sql, { tenants: "*" }, filter, asked);
        all.push(...(page.items as unknown as readonly KeyItem[]));
        cursor = page.next_cursor;
        if (cursor === undefined) return all;
      }
    });
    return output === "json" ? JSON.stringify(items, null, 2) : tableOf(items);
  },
};

interface KeyItem {
  readonly id: string;
  readonly name: string;
  readonly roles: readonly string[];
  readonly tenant_id?: string;
  readonly expires_at?: string;
  readonly revoked_at?: string;
  readonly last_used_at?: string;
}

function tableOf(items: readonly KeyItem[]): string {
  const rows = items.map((item) => [
    ...[item.id, item.name.replace(/\s+/g, " "), item.roles.join(","), item.tenant_id ?? "-"],
    ...[item.last_used_at ?? "-", item.expires_at ?? "-", item.revoked_at ?? "-"],
  ]);
  const all = [["ID", "NAME", "ROLES", "TENANT", "LAST USED", "EXPIRES", "REVOKED"], ...rows];
  const widths = all[0]?.map((_, nth) => Math.max(...all.map((row) => row[nth]?.length ?? 0))) ?? [];
  return all
    .map((row) =>
      row
        .map((cell, nth) => cell.padEnd(widths[nth] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

const REVOKE = "key revoke";

export const revokeKey: Command = {
  name: REVOKE,
  parameters: "<id>",
  summary: "Revokes an API key: every node refuses it within 5 s",
  details: `The id is the part of the key between saga_ and the next _. Of a whole key the rest is ignored, and is not printed.
${WHERE}`,
  async run(args) {
    const { positionals } = readArguments(REVOKE, args, {});
    const [given, ...rest] = positionals;
    if (given === undefined || rest.length > 0) throw new Failure(`${REVOKE} needs the id of one key`);
    const { KEY_ID_PATTERN, parseKey } = await import("../access/index.js");
    const id = parseKey(given)?.id ?? given;
    if (!new RegExp(KEY_ID_PATTERN).test(id)) throw new Failure(`${REVOKE}: that is not the id of a key`);
    const { revokeKey: revoke } = await import("../store/lists/api-keys.js");
    const revoked = await withDatabase((sql) => revoke(sql, id, { tenants: "*" }));
    if (!revoked) throw new Failure(`there is no API key ${id}`);
    return id;
  },
};
