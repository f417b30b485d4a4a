// `saga`: the head of a definition, and the value that a finished one is. Its steps are in chain.ts.
import type { TSchema } from "typebox";
import { refuseUnknown } from "../contract/index.js";
import { attributeName, DOCUMENT, optionName } from "./attributes.js";
import { Chain } from "./chain.js";
import type { Saga, SagaDocument, StepDocument } from "./definition.js";
import type { Ref } from "./expression.js";
import type { Begin } from "./flow.js";
import type { TypeOf } from "./read.js";
import { scopeOf } from "./scope.js";
import { type Json, type JsonObject, plainOf, templateOf, type Value } from "./value.js";
import { schemaOf } from "./written.js";

/** What a saga says of itself. */
export interface SagaOptions<Input extends TSchema> {
  /** Display name. */
  readonly name: string;
  /** A TypeBox schema or plain JSON Schema of what a run is started with. The service checks it at the start. */
  readonly input?: Input;
  /** In place of `input`: a type for the inputs, which nothing checks. The document has no `input_schema`. */
  readonly uncheckedInput?: Input;
  readonly description?: string;
  /** Default: the service counts. */
  readonly version?: number;
  /** Whether runs can be started as soon as it is stored. */
  readonly published?: boolean;
  /** Only this tenant can start it. */
  readonly tenantId?: string;
  /** For the whole run; on expiry it rolls back. */
  readonly timeoutMs?: number;
  /** What an error that nothing takes leads to: a rollback (the default), or a person. */
  readonly onFailure?: "rollback" | "incident";
  readonly onUndoFailure?: "continue" | "incident";
  /** At most `limit` runs go on at once for a key. */
  readonly concurrency?: {
    readonly key:
      | Value<string | number | boolean>
      | ((scope: { readonly inputs: Ref<TypeOf<Input>> }) => Value<string | number | boolean>);
    readonly limit: number;
    readonly onLimit?: "queue" | "refuse" | "cancel_oldest";
  };
  /** At most `limit` runs begin in `perMs` milliseconds for a key; `burst` at once after a time without any. */
  readonly rateLimit?: {
    readonly key:
      | Value<string | number | boolean>
      | ((scope: { readonly inputs: Ref<TypeOf<Input>> }) => Value<string | number | boolean>);
    readonly limit: number;
    readonly perMs: number;
    readonly burst?: number;
  };
  /** For how many days the service keeps runs after they have ended; by the state in which they ended, in place of `days`. */
  readonly retention?: {
    readonly days?: number;
    readonly succeededDays?: number;
    readonly failedDays?: number;
    readonly cancelledDays?: number;
  };
  /** `full`: runs keep the variables of each step entry at the top level, so that they can be forked from any of them. */
  readonly history?: "full";
  /** By an earlier version: its steps that have another id in this one. */
  readonly migrations?: { readonly [version: string]: { readonly [old: string]: string } };
  /** The address of a JSON Schema, for editors. */
  readonly schema?: string;
  readonly createdAt?: string;
  readonly createdBy?: string;
}

const OPTIONS: Readonly<Record<string, true>> = Object.fromEntries(
  [...Object.keys(DOCUMENT).map(optionName), "input", "uncheckedInput"]
    .filter((name) => !["id", "start", "steps", "entrypoints", "inputSchema"].includes(name))
    .map((name) => [name, true]),
);

const ID = /^[A-Za-z0-9_.:-]{1,128}$/;

/**
 * Begins a saga: chain its steps to it, and close it with `end`, `error` or `close`. Throws TypeError if the id does not match
 * [A-Za-z0-9_.:-]{1,128}, or an option is unknown.
 */
export function saga<const Id extends string, const Input extends TSchema>(
  id: Id,
  options: SagaOptions<Input>,
): Begin<TypeOf<Input>> {
  checkId("saga", id);
  refuseUnknown(`saga ${id}`, options, OPTIONS);
  if (typeof options.name !== "string") throw new TypeError(`saga ${id} needs a name`);
  if (options.input !== undefined && options.uncheckedInput !== undefined)
    throw new TypeError(`saga ${id} has an input that is checked, and one that is not: give one of them`);
  // What the functions of the options see is checked where they are written.
  const given = options as unknown as SagaOptions<TSchema>;
  const place = {
    path: "",
    locals: [],
    origin: {},
    finish: (chain: Chain) => new WrittenSaga(documentOf(id, given, chain)),
  };
  return new Chain(place) as unknown as Begin<TypeOf<Input>>;
}

function documentOf(id: string, options: SagaOptions<TSchema>, chain: Chain): SagaDocument {
  const head: Record<string, Json> = { id };
  for (const [name, kind] of Object.entries(DOCUMENT)) {
    const value = options[optionName(name) as keyof typeof options];
    if (value !== undefined && kind === "plain") head[name] = plainOf(value, optionName(name));
  }
  if (options.input !== undefined) head.input_schema = schemaOf(options.input);
  if (options.concurrency !== undefined) head.concurrency = concurrencyOf(options.concurrency);
  if (options.rateLimit !== undefined) head.rate_limit = rateLimitOf(options.rateLimit);
  if (options.retention !== undefined) head.retention = retentionOf(options.retention);
  const steps = chain.layOut(undefined);
  checkSteps(id, steps, chain);
  head.start = chain.first(undefined);
  if (chain.entries.length > 0) head.entrypoints = Object.fromEntries(chain.entries);
  head.steps = steps;
  return Object.fromEntries(
    Object.keys(DOCUMENT).flatMap((name) => (name in head ? [[name, head[name]]] : [])),
  ) as never;
}

function concurrencyOf({ key, limit, onLimit }: NonNullable<SagaOptions<TSchema>["concurrency"]>): JsonObject {
  const given = typeof key === "function" ? key(scopeOf([]) as never) : key;
  return {
    key: templateOf(given, "concurrency.key"),
    limit: plainOf(limit, "concurrency.limit"),
    ...(onLimit !== undefined && { on_limit: onLimit }),
  };
}

function rateLimitOf({ key, limit, perMs, burst }: NonNullable<SagaOptions<TSchema>["rateLimit"]>): JsonObject {
  const given = typeof key === "function" ? key(scopeOf([]) as never) : key;
  return {
    key: templateOf(given, "rateLimit.key"),
    limit: plainOf(limit, "rateLimit.limit"),
    per_ms: plainOf(perMs, "rateLimit.perMs"),
    ...(burst !== undefined && { burst: plainOf(burst, "rateLimit.burst") }),
  };
}

const RETENTION = { days: true, succeededDays: true, failedDays: true, cancelledDays: true };

function retentionOf(given: NonNullable<SagaOptions<TSchema>["retention"]>): JsonObject {
  refuseUnknown("retention", given, RETENTION);
  const days = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.fromEntries(days.map(([name, value]) => [attributeName(name), plainOf(value, `retention.${name}`)]));
}

function checkId(what: string, id: string): void {
  if (!ID.test(id)) throw new TypeError(`the id ${JSON.stringify(id)} of a ${what} must match ${ID}`);
}

/** What the compiler cannot see: two branches with a step of the same id. */
function checkSteps(saga: string, steps: readonly StepDocument[], chain: Chain): void {
  const seen = new Set<string>();
  for (const { id } of steps) {
    checkId("step", id);
    if (seen.has(id)) throw new TypeError(`saga ${saga} has two steps with the id "${id}": each needs its own`);
    seen.add(id);
  }
  const names = chain.entries.map(([name]) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new TypeError(`saga ${saga} has two entrypoints with the name "${twice}"`);
}

/** A finished saga. It cannot be changed. */
export class WrittenSaga implements Saga<never, never> {
  readonly id: string;
  declare readonly "~types"?: { readonly input: never; readonly output: never };

  constructor(private readonly document: SagaDocument) {
    this.id = document.id;
    Object.freeze(this);
  }

  toJSON(): SagaDocument {
    return structuredClone(this.document);
  }
}
