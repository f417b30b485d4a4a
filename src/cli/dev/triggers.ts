// The project's triggers: made, changed, replaced and deleted as their documents are. The service gives a trigger its id, so a file in the data folder says which one a document has
// made. What a document means is the service's decision.
import { createHash } from "node:crypto";
import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { isObject } from "../frame/input.js";
import type { Api, Document, Refused } from "./api.js";

const FILE = "triggers.json";

/** By where the document is from. */
interface Made {
  readonly id: string;
  /** What the document said last. Between two changes of it, `saga trigger disable` counts. */
  readonly enabled: boolean;
}

interface Stored extends Document {
  readonly id: string;
  readonly config: unknown;
}

export type Applied =
  | { readonly id: string; readonly done: "created" | "changed" | "replaced" | "as it was" }
  | Refused;

export class Triggers {
  private made: Map<string, Made> | undefined;

  constructor(
    private readonly api: Api,
    private readonly dataDir: string,
  ) {}

  /** Rejects if the service does not answer, or the file cannot be written. */
  async apply(from: string, document: Document, signal: AbortSignal): Promise<Applied> {
    const made = await this.all();
    const before = made.get(from);
    const found = before && (await this.stored(before.id, signal));
    const enabled = document.enabled !== false;
    if (before && found && hasSameHead(found, document)) {
      const applied = await this.change(found, document, enabled !== before.enabled, signal);
      if ("id" in applied) await this.keep(from, { id: found.id, enabled });
      return applied;
    }
    // A repeat gets the first trigger: if the file is lost, there are not two of it.
    const key = createHash("sha256")
      .update(`${from}\n${JSON.stringify(document)}`)
      .digest("hex");
    const answer = await this.api.ask("POST", "/triggers", document, signal, `saga-dev-${key}`);
    if (answer.status !== 201) return this.api.refusalIn(answer);
    const created = answer.body as Stored;
    await this.keep(from, { id: created.id, enabled });
    // The first one may have been changed since.
    const now = (await this.stored(created.id, signal)) ?? created;
    const applied = await this.change(now, document, false, signal);
    if (!("id" in applied)) return applied;
    if (found) await this.delete(found.id, signal);
    return { id: created.id, done: found ? "replaced" : "created" };
  }

  /** Deletes those of documents that are gone. Returns their ids. */
  async withdraw(isGone: (from: string) => boolean, signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    const gone = [...(await this.all())].filter(([from]) => isGone(from));
    for (const [from, { id }] of gone) {
      await this.delete(id, signal);
      await this.keep(from, undefined);
    }
    return new Map(gone.map(([from, { id }]) => [from, id]));
  }

  private async change(found: Stored, { config, enabled = true }: Document, isOther: boolean, signal: AbortSignal) {
    const changes = {
      ...(!isDeepStrictEqual(found.config, config) && { config }),
      ...(isOther && { enabled }),
    };
    if (Object.keys(changes).length === 0) return { id: found.id, done: "as it was" } as const;
    const answer = await this.api.ask("PATCH", pathOf(found.id), changes, signal);
    return answer.status === 200 ? ({ id: found.id, done: "changed" } as const) : this.api.refusalIn(answer);
  }

  private async stored(id: string, signal: AbortSignal): Promise<Stored | undefined> {
    const { status, body } = await this.api.ask("GET", pathOf(id), undefined, signal);
    return status === 200 ? (body as Stored) : undefined;
  }

  /** One that is gone already is no fault. */
  private async delete(id: string, signal: AbortSignal): Promise<void> {
    await this.api.ask("DELETE", pathOf(id), undefined, signal);
  }

  private async all(): Promise<Map<string, Made>> {
    this.made ??= await readMade(join(this.dataDir, FILE));
    return this.made;
  }

  private async keep(from: string, made: Made | undefined): Promise<void> {
    const all = await this.all();
    if (made) all.set(from, made);
    else all.delete(from);
    const path = join(this.dataDir, FILE);
    await writeFile(`${path}.new`, JSON.stringify(Object.fromEntries(all), undefined, 2));
    await rename(`${path}.new`, path);
  }
}

const pathOf = (id: string) => `/triggers/${encodeURIComponent(id)}`;

/** The API changes the rest only. A tenant that is not named is that of the credential. */
function hasSameHead(found: Stored, document: Document): boolean {
  const names = ["trigger_type", "workflow_id", "version", ...(document.tenant_id == null ? [] : ["tenant_id"])];
  return names.every((name) => (found[name] ?? null) === (document[name] ?? null));
}

/** A file that is not ours, or broken, counts as none. */
async function readMade(path: string): Promise<Map<string, Made>> {
  const text = await readFile(path, "utf8").catch(() => "{}");
  try {
    const value: unknown = JSON.parse(text);
    const entries = isObject(value) ? Object.entries(value) : [];
    return new Map(entries.filter(([, made]) => isObject(made) && typeof made.id === "string") as [string, Made][]);
  } catch {
    return new Map();
  }
}
