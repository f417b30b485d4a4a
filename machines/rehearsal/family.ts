// The family of a rehearsed run: all its runs in a store in memory, the facts of their decisions, and their commits.

import type { Program } from "../chart/program.js";
import { forkFault } from "../chart/program.js";
import { type CarriedOut, commitOf, startOf } from "../memory/commit.js";
import { MemoryStore } from "../memory/store.js";
import type { AuditEvent } from "../messages/audit.js";
import type { ActionFact, Facts, Fetched, Need } from "../messages/fact.js";
import type { PublishedEvent, SentCommand } from "../messages/owed.js";
import { ruleFor } from "../rule/document.js";
import { withSecrets } from "../schema/secrets.js";
import type { RunIdentity } from "../state/identity.js";
import { decodeRun } from "../state/record.js";
import { asRunId, type RunId } from "../values/ids.js";
import { measure } from "../values/json.js";
import { STANDARD_RUN_LIMITS } from "../values/limits.js";
import { formatInstant } from "../values/time.js";
import { storedRun } from "../writes/run-row.js";
import { MockedSaga } from "./mocked-saga.js";
import { MockScript } from "./mocks.js";
import type { RehearsedEvent, WantedWorkflow } from "./rehearsed.js";
import type { RehearsalOptions } from "./request.js";
import { type RehearsalHost, RehearsedRun } from "./run.js";

/** Thrown during a decision, before anything has changed. It never leaves `Rehearsal.move`. */
export class MissingWorkflow {
  constructor(readonly workflow: WantedWorkflow) {}
}

/** As the service reads them. */
const EVENTS_AT_ONCE = 50;

const keyOf = ({ workflowId, version }: WantedWorkflow) => `${workflowId}@${version ?? ""}`;

export class Family implements RehearsalHost {
  readonly store: MemoryStore;
  readonly root: RehearsedRun;
  /** In the order of their creation. */
  readonly runs = new Map<RunId, RehearsedRun>();
  /** The runs that have not ended. */
  readonly living = new Set<RehearsedRun>();
  readonly script: MockScript;
  /** The audit events of all runs, in the order in which they happened. */
  readonly events: RehearsedEvent[] = [];
  /** The clock. Only the rehearsal advances it. */
  now: number;
  /** The size of variables, outputs and events, in characters of JSON. */
  keptChars = 0;
  private readonly mockedSagas = new Map<string, MockedSaga>();
  private readonly workflows = new Map<string, Program | null>();
  private readonly programs = new Map<string, Program>();
  private readonly ids = new Map<string, string>();

  constructor(
    private readonly program: Program,
    private readonly options: RehearsalOptions,
  ) {
    const { startAt, mocks = {}, limits = STANDARD_RUN_LIMITS } = options;
    this.now = startAt;
    this.script = new MockScript(mocks, program.workflowId);
    this.store = new MemoryStore(this, { limits, page: EVENTS_AT_ONCE });
    const identity = this.rootIdentity();
    this.store.commit(startOf(identity, undefined, this.store.newFence));
    this.root = this.addRun(identity, program);
  }

  private rootIdentity(): RunIdentity {
    const { workflowId, version, timeoutMs } = this.program;
    const { inputs: given = {}, entrypoint = "", tenantId, dryRun = false, features = {} } = this.options;
    const definitionId = this.register(this.program);
    const inputs = withSecrets(this.program.inputSchema, given);
    const expires = timeoutMs === undefined ? {} : { expiresAt: this.now + timeoutMs };
    return {
      ...{ id: asRunId(this.uuid("run")), workflowId, version, definitionId, tenantId },
      ...{ dryRun, features, inputs, entrypoint, startedAt: this.now, ...expires },
    };
  }

  /** Adds a workflow that was missing. Null: it does not exist. */
  provide(wanted: WantedWorkflow, program: Program | null): void {
    this.workflows.set(keyOf(wanted), program);
    if (program) this.register(program);
  }

  /** Whether a mock stands for the step, so that its sub-saga does not run. */
  isMocked({ workflowId }: RunIdentity, step: string | undefined): boolean {
    return step !== undefined && this.script.has(workflowId, step);
  }

  /** The message that was sent first of those on their way. */
  nextMessage(): SentCommand | undefined {
    for (const { id, run_id, command } of this.store.tables.inbox)
      return { id, to: asRunId(run_id), command: command as SentCommand["command"] };
    return undefined;
  }

  /** A command to a run outside the rehearsal is dropped. */
  deliver({ id, to, command }: SentCommand): void {
    const run = this.runs.get(to);
    if (run) run.command(command, id);
    else this.store.tables.inbox.delete(id);
    if (command.type === "cancel") this.mockedSagas.get(to)?.cancel();
  }

  /** An event from outside. */
  publish(event: Omit<PublishedEvent, "tenantId">): void {
    this.store.publish(event);
    this.store.announce();
  }

  // ---- The host of a run

  facts(): Facts {
    const { options } = this;
    return {
      limits: options.limits ?? STANDARD_RUN_LIMITS,
      now: this.now,
      random: 0.5,
      uuid: (_, seed) => this.uuid(seed),
      action: (service, name, version) =>
        options.action?.(service, name, version) ?? unregistered(service, name, version),
      rule: (ruleId, tenantId) => ruleFor(tenantId, options.rule?.(ruleId)),
      licensed: () => true,
      conforms: (schema, value, granted) => options.conforms?.(schema, value, granted) ?? [],
    };
  }

  fetch(run: RehearsedRun, need: Need): Fetched {
    // No operator moves a rehearsed run.
    if (need.kind === "version") return { version: null };
    if (need.kind === "output_schema") return { outputSchema: null };
    // Its schemas are read at once.
    if (need.kind === "schema") return {};
    // A run outside the rehearsal is assumed to exist.
    if (need.kind === "target") return { target: { id: need.runId } };
    if (need.kind !== "workflow") return this.store.fetch(run.context.run, need);
    const { workflowId, version } = need;
    if (this.isMocked(run.context.run, run.step))
      return {
        workflow: {
          workflowId,
          version: version ?? 1,
          definitionId: "mock",
          enters: () => true,
          forkFault: () => "a mocked workflow is not forked",
        },
      };
    const program = this.workflows.get(keyOf(need));
    if (program === undefined) throw new MissingWorkflow({ workflowId, ...(version !== undefined && { version }) });
    if (program === null) return { workflow: null };
    const { timeoutMs, inputSchema, entrypoints } = program;
    return {
      workflow: {
        ...{ workflowId, version: program.version, definitionId: this.register(program), timeoutMs, inputSchema },
        enters: (entry) => entry === "" || Object.hasOwn(entrypoints, entry),
        forkFault: (step) => forkFault(program, step),
      },
    };
  }

  committed(run: RehearsedRun, done: CarriedOut): void {
    const { store } = this;
    if (!store.commit(commitOf(done, store.newFence))) throw new Error(`the commit of the run ${run.id} was lost`);
    for (const { audit, writes } of done.transitions) {
      for (const event of audit) this.record(run, event);
      for (const { to, row } of writes) if (to === "new_run") this.addChild(row.identity, run);
    }
    store.announce();
    // Nothing else runs: every slot is free, and every bucket is full.
    store.grantSlots(true);
    store.giveTurns(true);
    this.keptChars += run.addedChars;
    run.addedChars = 0;
    if (run.ended) this.living.delete(run);
  }

  private record({ context: { run } }: RehearsedRun, event: AuditEvent): void {
    const { type, stepId, attempt, from, to, actor, metadata, at } = event;
    this.keptChars += 200 + (metadata ? Number(measure(metadata)) : 0);
    this.events.push({
      ...{ seq: this.events.length + 1, run_id: run.id, workflow_id: run.workflowId },
      ...(stepId !== undefined && { step_id: stepId }),
      ...{ attempt, event_type: type, from_state: from, to_state: to, actor },
      ...(metadata && { metadata }),
      recorded_at: formatInstant(at),
    });
  }

  // ---- Runs and mocked sub-sagas

  private addChild(identity: RunIdentity, parent: RehearsedRun): void {
    // A detached run is not rehearsed: no run waits for it.
    if (identity.parentRunId === undefined) return;
    if (identity.definitionId === "mock") return this.addMockedSaga(identity, parent);
    const program = this.programs.get(identity.definitionId);
    if (!program) throw new Error(`the child workflow ${identity.workflowId} was not provided`);
    this.addRun(identity, program);
  }

  private addRun({ id }: RunIdentity, program: Program): RehearsedRun {
    const columns = this.store.columnsOf(id);
    if (!columns) throw new Error(`the run ${id} was not created`);
    const run = new RehearsedRun(program, decodeRun(storedRun(columns)), this);
    this.runs.set(id, run);
    this.living.add(run);
    const { workflowId: workflow_id, version, entrypoint, parentRunId } = run.context.run;
    const metadata = { workflow_id, version, entrypoint };
    const at = this.now;
    const started = { type: "saga.started", attempt: 0, from: "pending", to: "pending", metadata, at } as const;
    this.record(run, { ...started, actor: parentRunId === undefined ? "api" : "coordinator" });
    return run;
  }

  private addMockedSaga(identity: RunIdentity, parent: RehearsedRun): void {
    const mock = this.script.next(parent.context.run.workflowId, identity.parentStepId ?? "");
    const saga = new MockedSaga(identity, this);
    this.mockedSagas.set(identity.id, saga);
    saga.play(mock);
  }

  // ---- Ids

  private register(program: Program): string {
    const id = keyOf(program);
    this.programs.set(id, program);
    return id;
  }

  /** Ids are numbered in the order of their first use, so that the same rehearsal has the same ids. */
  uuid(seed: string): string {
    const known = this.ids.get(seed) ?? `00000000-0000-8000-8000-${(this.ids.size + 1).toString(16).padStart(12, "0")}`;
    this.ids.set(seed, known);
    return known;
  }
}

function unregistered(service: string, name: string, version = 1): ActionFact {
  const schemas = { inputSchema: {}, outputSchema: {} };
  return { service, name, version, transport: "grpc", compensable: false, dryRunSupported: false, ...schemas };
}
