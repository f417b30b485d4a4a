// The draft on which a decision writes its transitions. No draft leaves decide(), so a decision stays a pure function of
// context, command and facts.

import { eventName } from "../chart/labels.js";
import type { Expression } from "../expression/index.js";
import { scopeOf } from "../expression/scope.js";
import type { AuditEvent, AuditType } from "../messages/audit.js";
import type { Answer } from "../messages/command.js";
import type { Facts } from "../messages/fact.js";
import type { EventConditions, Owed, Send, Write } from "../messages/owed.js";
import type { Decided, Transition, VersionOf } from "../messages/transition.js";
import { isLongWait, type Patch, type RunContext } from "../state/context.js";
import { isTerminal, type RunState } from "../state/lifecycle.js";
import { eventConditions } from "../steps/event.js";
import type { WorkflowPlan } from "../steps/plan.js";
import type { StepPlan } from "../steps/step.js";
import type { RunId } from "../values/ids.js";
import { beginningOfJson, type Json, type JsonObject, mayHoldMark, measure } from "../values/json.js";
import { maskedObject } from "../values/secret.js";
import { eventWaitRow, slotReleases, taskClosing, turnReleases } from "./ledger/waits.js";

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export class Draft {
  /** The context after everything drafted so far. */
  readonly context: Mutable<RunContext>;
  private audit: AuditEvent[] = [];
  private writes: Write[] = [];
  private sends: Send[] = [];
  private patch: Mutable<Patch> = {};
  private storedNames: string[] = [];
  private moved: VersionOf | undefined;
  private readonly done: Transition[] = [];
  /** Of the worker that is the actor: its rows name it. */
  credential: string | undefined;
  /** Children that this very decision creates. No read can find them yet. */
  readonly createdChildren: { readonly id: RunId; readonly entry: number }[] = [];

  constructor(
    readonly workflow: WorkflowPlan,
    context: RunContext,
    readonly facts: Facts,
    public actor: string,
  ) {
    this.context = { ...context };
  }

  get now(): number {
    return this.facts.now;
  }

  /** Changes the context. A change of the wait, or of a slot or a turn, owes what follows from it. */
  change(patch: Patch): void {
    const { wait, slot, turn, entry } = this.context;
    if (slot || entry?.slot) for (const release of slotReleases(this.context, patch)) this.owe(release);
    if (turn || entry?.turn) for (const release of turnReleases(this.context, patch)) this.owe(release);
    const changesWait = "wait" in patch && patch.wait !== wait;
    if (changesWait) {
      this.owe(taskClosing(this, wait, patch.wait));
      this.owe(eventWaitRow(this, patch.wait, () => this.eventConditions()));
    }
    Object.assign(this.context, patch);
    Object.assign(this.patch, patch);
    if (changesWait && wait && isLongWait(wait) && wait.kind !== patch.wait?.kind) this.countResumption();
  }

  /** A slot or a turn that the run waits for before its first step is part of its beginning. */
  private countResumption(): void {
    const { entries, resumptions = 0 } = this.context;
    if (entries > 0) this.change({ resumptions: resumptions + 1 });
  }

  /** What the `match` of the step that begins to wait requires: its scope does not change while it waits. */
  private eventConditions(): EventConditions | undefined {
    const { match } = currentPlan(this).attributes as { match?: Expression };
    const { entry, entries } = this.context;
    return match && eventConditions(match, scopeOf(this.context, entry?.at ?? this.now), entry?.number ?? entries);
  }

  /** Stores variables. Only these are written. */
  storeVariables(variables: JsonObject, growth: number): void {
    const { context } = this;
    this.change({ variables: { ...context.variables, ...variables }, variablesSize: context.variablesSize + growth });
    this.storedNames.push(...Object.keys(variables));
  }

  removeVariable(name: string): void {
    const { variables, variablesSize } = this.context;
    if (!Object.hasOwn(variables, name)) return;
    const { [name]: gone, ...rest } = variables;
    this.change({ variables: rest, variablesSize: variablesSize - sizeOf(gone) - name.length - 4 });
    this.storedNames.push(name);
  }

  /** Records an audit event. `to` is the run state after it: the state of a run is always that of its last audit row. */
  row(type: AuditType, to: RunState, about: { stepId?: string; attempt?: number; metadata?: JsonObject } = {}): void {
    const { stepId, attempt = 0 } = about;
    const { credential } = this;
    // A literal with a spread and a member more takes 2 µs on Node 20.
    const named = credential === undefined ? about.metadata : Object.assign({}, about.metadata, { credential });
    const metadata = named && bounded(named, this.facts.limits.metadata);
    const from = this.context.state;
    // What a paused run still does (it takes answers) leaves it paused.
    const state = this.context.held && !isTerminal(to) ? "paused" : to;
    this.audit.push({ type, stepId, attempt, from, to: state, actor: this.actor, metadata, at: this.now });
    if (state !== from) this.change({ state });
  }

  owe(owed: Owed | undefined): void {
    if (owed?.writes) this.writes.push(...owed.writes);
    if (owed?.sends) this.sends.push(...owed.sends);
  }

  /** The run, as one that owes. */
  get run(): RunContext["run"] {
    return this.context.run;
  }

  /** The run is one of another version after this transition, which is the last one that can be drafted on its old plan. */
  move({ version, definitionId }: VersionOf): void {
    this.moved = { version, definitionId };
    this.context.run = { ...this.context.run, ...this.moved };
  }

  /** Ends the transition: everything drafted since the last one belongs to the edge `label` of the chart. */
  close(label: string): void {
    const { patch, storedNames: stored, audit, writes, sends, moved } = this;
    const transition = { type: eventName(label), patch, stored, audit, writes, sends };
    this.done.push(moved ? { ...transition, moved } : transition);
    this.patch = {};
    this.storedNames = [];
    this.audit = [];
    this.writes = [];
    this.sends = [];
    this.moved = undefined;
  }

  /** The decision that this draft is. */
  decided<A extends Answer>(answer: A): Decided<A> {
    return { transitions: this.done, answer };
  }
}

/** Masks and bounds audit metadata: members that are too long become excerpts of their JSON text, and `truncated` names them. */
function bounded(given: JsonObject, limit: number): JsonObject {
  const size = measure(given);
  // Rows of the audit log are read by many, and kept: no secret value gets there. What cannot be measured was not looked through.
  const metadata = typeof size === "number" && !mayHoldMark() ? given : maskedObject(given);
  if (metadata === given ? typeof size !== "number" || size <= limit : sizeOf(metadata) <= limit) return metadata;
  const share = Math.floor(limit / (2 * Object.keys(metadata).length));
  const cut = Object.keys(metadata).filter((key) => sizeOf(metadata[key]) > share);
  const excerpts = cut.map((key) => [key, beginningOfJson(metadata[key] as Json, share)]);
  return { ...metadata, ...Object.fromEntries(excerpts), truncated: cut };
}

function sizeOf(value: unknown): number {
  const size = measure(value);
  return typeof size === "number" ? size : 0;
}

/** The plan of the current step. */
export function currentPlan(draft: Draft): StepPlan {
  const plan = draft.workflow.steps.get(draft.context.step ?? "");
  if (!plan) throw new Error(`run ${draft.context.run.id}: its definition has no step ${draft.context.step}`);
  return plan;
}
