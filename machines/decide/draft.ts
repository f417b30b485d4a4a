// A transition: one actor step, decided. And the draft that a decision writes it on: nothing outside sees a draft, so
// deciding stays a pure function of context, command and facts.

import type { AuditEvent, AuditType } from "./audit.js";
import type { Answer } from "./commands.js";
import { eventName } from "./compile.js";
import type { Patch, RunContext } from "./context.js";
import type { Effect } from "./effects.js";
import { awaiting } from "./events.js";
import type { Facts, Need } from "./facts.js";
import { type JsonObject, measure } from "./json.js";
import type { RunState } from "./lifecycle.js";
import type { Program } from "./program.js";
import { closing } from "./task.js";

/** The event that the run's actor receives. `type` names the edge of the chart; the chart refuses what is no edge. */
export interface Transition {
  readonly type: string;
  readonly patch: Patch;
  /** The variables it stores: what is written is what changed. */
  readonly stored: readonly string[];
  readonly audit: readonly AuditEvent[];
  readonly effects: readonly Effect[];
}

export type Decision =
  /**
   * Take these transitions, in one commit, and then answer. None: a refusal or a no-op, whose revision is confirmed before
   * it is answered (law 3); `effects` then owes rows that leave the run itself untouched.
   */
  | { readonly transitions: readonly Transition[]; readonly answer: Answer; readonly effects?: readonly Effect[] }
  | { readonly need: Need };

/** Thrown inside a decision when a fact is missing; never leaves decide(). */
export class Needed {
  constructor(readonly need: Need) {}
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export class Draft {
  /** The context as it is after everything drafted so far. */
  readonly context: Mutable<RunContext>;
  private audit: AuditEvent[] = [];
  private effects: Effect[] = [];
  private patch: Mutable<Patch> = {};
  private stored: string[] = [];
  private readonly done: Transition[] = [];
  /** Children that this very decision creates: no read can find them yet. */
  readonly born: { readonly id: string; readonly entry: number }[] = [];

  constructor(
    readonly program: Program,
    context: RunContext,
    readonly facts: Facts,
    public actor: string,
  ) {
    this.context = { ...context };
  }

  get now(): number {
    return this.facts.now;
  }

  /** Changes the context. */
  change(patch: Patch): void {
    if ("wait" in patch) {
      const { wait } = this.context;
      this.owe(...closing(wait, patch.wait), ...awaiting(wait, patch.wait));
    }
    Object.assign(this.context, patch);
    Object.assign(this.patch, patch);
  }

  /** Stores variables; only those named here are written. */
  store(variables: JsonObject, growth: number): void {
    const { context } = this;
    this.change({ variables: { ...context.variables, ...variables }, variablesSize: context.variablesSize + growth });
    this.stored.push(...Object.keys(variables));
  }

  /** Removes a variable. */
  forget(name: string): void {
    const { variables, variablesSize } = this.context;
    if (!Object.hasOwn(variables, name)) return;
    const { [name]: gone, ...rest } = variables;
    this.change({ variables: rest, variablesSize: variablesSize - sizeOf(gone) - name.length - 4 });
    this.stored.push(name);
  }

  /** Records an audit event; `to` is the run state it leads to. The run's state is always that of its last row. */
  row(type: AuditType, to: RunState, about: { stepId?: string; attempt?: number; metadata?: JsonObject } = {}): void {
    const { stepId, attempt = 0 } = about;
    const metadata = about.metadata && bounded(about.metadata, this.facts.limits.metadata);
    const from = this.context.state;
    this.audit.push({ type, stepId, attempt, from, to, actor: this.actor, metadata, at: this.now });
    if (to !== from) this.change({ state: to });
  }

  owe(...effects: readonly Effect[]): void {
    this.effects.push(...effects);
  }

  /** Closes the transition: what was drafted since the last one goes along the edge `label`. */
  take(label: string): void {
    const { patch, stored, audit, effects } = this;
    this.done.push({ type: eventName(label), patch, stored, audit, effects });
    this.patch = {};
    this.stored = [];
    this.audit = [];
    this.effects = [];
  }

  decided(answer: Answer): Decision {
    return { transitions: this.done, answer };
  }
}

/** Audit metadata is bounded: what is over is cut to an excerpt of its JSON text, and named in `truncated`. */
function bounded(metadata: JsonObject, most: number): JsonObject {
  if (sizeOf(metadata) <= most) return metadata;
  const room = Math.floor(most / (2 * Object.keys(metadata).length));
  const cut = Object.keys(metadata).filter((key) => sizeOf(metadata[key]) > room);
  const excerpts = cut.map((key) => [key, wellFormed(JSON.stringify(metadata[key]).slice(0, room))]);
  return { ...metadata, ...Object.fromEntries(excerpts), truncated: cut };
}

function sizeOf(value: unknown): number {
  const size = measure(value);
  return typeof size === "number" ? size : 0;
}

/** A cut may fall between the halves of a surrogate pair. */
function wellFormed(text: string): string {
  return /[\ud800-\udbff]$/.test(text) ? text.slice(0, -1) : text;
}
