// The laws, checked on a simulation: those of one run's audit rows and undo list, and those of a family, read from the history of all
// commits. Rows and definitions tell which steps must be undone, independently of the counts that the run itself keeps.
import { type AuditEvent, isHalted, isTerminal, type JsonObject } from "../../machines/index.js";
import { strayedFrom } from "./chart/charts.js";
import type { Committed, Simulation, World } from "./simulation.js";

type Say = (sentence: string) => void;

/** An open step entry, as the rows of its run describe it. */
interface Open {
  readonly entry: number;
  /** An attempt of it may have happened. */
  happened: boolean;
  /** It stood at an incident for a value over a limit. */
  limited?: boolean;
  /** A person gave its output. */
  given?: boolean;
}

/** The state of a run while the laws read the history. */
interface Reading {
  entries: number;
  ended: boolean;
  /** The attempt that a worker has. */
  dispatched: string | undefined;
  /** The step entry of the try that is being left; 0: the run as a whole. */
  unwinding: number;
  /** That try undoes its steps, which nothing but a terminate cuts short. */
  rollsBack: boolean;
  readonly open: Map<string, Open>;
  readonly children: Simulation[];
  /** The keys that its rows require on its undo list, and the keys that are on it. */
  readonly due: string[];
  readonly owed: string[];
  /** Keys that are allowed, but not required, on the list. */
  readonly either: string[];
  /** Its undo list, in the order of the ordinals. */
  list: { readonly ordinal: number; readonly entry: number; readonly calls: boolean }[];
}

/** Every broken law of every run of the world. */
export function worldViolations(world: World): string[] {
  const found: string[] = [];
  const names = new Map([...world.runs.keys()].map((id, index) => [id, `r${index}`]));
  const reader = new Reader(world, (run, sentence) => found.push(`${names.get(run)}: ${sentence}`));
  for (const committed of world.history) reader.see(committed);
  reader.close();
  found.push(...strayedFrom(world.history), ...brokenPromises(world), ...leakedSlots(world));
  for (const run of world.runs.values())
    for (const sentence of violations(run)) found.push(`${names.get(run.id)}: ${sentence}`);
  return found;
}

/** A sender that was answered `matched` was told that a waiting step takes its signal. Once everything has ended, one has. */
function brokenPromises({ answers, signals }: World): string[] {
  return [...answers.values()].flatMap((answer) => {
    const signal = answer.type === "signal" && answer.matched ? signals.find(({ id }) => id === answer.id) : undefined;
    return signal && !signal.consumed ? [`the signal ${signal.id} was matched, and no step has taken it`] : [];
  });
}

/** A run that has ended holds no slot, and waits for none. */
function leakedSlots({ tickets, runs }: World): string[] {
  return tickets.flatMap(({ row: { run_id, key } }) =>
    runs.get(run_id)?.ended ? [`the run ${run_id} has ended with a ticket for a slot of ${key}`] : [],
  );
}

/** For a world where only the clock and the outside can move: the runs that wait for something that already exists. */
export function strandedIn(world: World): string[] {
  return [...world.runs.values()].flatMap(({ id, context, ended }) => {
    const { wait, groups, run } = context;
    if (ended || isHalted(context)) return [];
    const ids = [id, ...(run.family ?? [])];
    const waits = wait?.kind === "signal" ? wait.name : undefined;
    const found: string[] = [];
    if (world.signals.some((signal) => ids.includes(signal.runId) && signal.name === waits && world.isFree(signal)))
      found.push(`the run ${id} waits for the signal ${waits}, which is there`);
    const living = world.childrenOf(id).filter((child) => !child.ended);
    const running = Object.values(groups).reduce((sum, group) => sum + group.running, 0);
    if (running !== living.length) found.push(`the run ${id} counts ${running} children, ${living.length} live`);
    if (wait?.kind === "children" && living.length === 0) found.push(`the run ${id} waits for children and has none`);
    return found;
  });
}

class Reader {
  private readonly readings = new Map<string, Reading>();
  private readonly signals = new Set<string>();
  private ordinals = 0;

  constructor(
    private readonly world: World,
    private readonly tell: (run: string, sentence: string) => void,
  ) {}

  private of(run: string): Reading {
    const known = this.readings.get(run);
    const fresh = {
      entries: 0,
      ended: false,
      dispatched: undefined,
      unwinding: 0,
      rollsBack: false,
      open: new Map(),
      children: [],
      due: [],
      either: [],
      owed: [],
      list: [],
    };
    const reading = known ?? fresh;
    if (!known) this.readings.set(run, reading);
    return reading;
  }

  see(committed: Committed): void {
    const { run, rows } = committed;
    const reading = this.of(run.id);
    const say: Say = (sentence) => this.tell(run.id, sentence);
    if (reading.ended) say("a run that had ended went on");
    for (const row of rows) this.row(committed, reading, row, say);
    this.writes(committed, reading, say);
    reading.unwinding = committed.context.unwinding?.entry ?? 0;
    reading.rollsBack = rollsBack(committed);
    if (rows.at(-1)?.type.startsWith("run.")) {
      reading.ended = true;
      if (reading.children.some(({ id }) => !this.of(id).ended)) say("it ended before its children");
      if (Object.keys(committed.context.groups).length > 0) say("it ended with a group of children");
    }
  }

  private row(committed: Committed, reading: Reading, row: AuditEvent, say: Say): void {
    const { run, context, program } = committed;
    const { type, stepId = "", attempt, metadata = {} } = row;
    const { open } = reading;
    const key = () => `${run.id}:${stepId}:${open.get(stepId)?.entry}`;
    const compensates = program.steps.get(stepId)?.compensation !== undefined;
    if (metadata.kind === "migrate") renameOpen(open, metadata.renamed as Readonly<Record<string, string>> | undefined);
    if (type === "step.dispatched") reading.dispatched = `${stepId}#${attempt}`;
    else if (attempt > 0 && type.startsWith("step.")) reading.dispatched = undefined;
    const given = metadata.kind === "skip_step" ? open.get(stepId) : undefined;
    if (given) given.given = true;
    if (metadata.phase === "compensation") {
      if (type === "step.started") this.quiet(reading, row.to === "running" ? reading.unwinding : 0, say);
    } else if (type === "step.started") open.set(stepId, { entry: ++reading.entries, happened: false });
    else if (type === "step.succeeded") {
      if (compensates) reading.due.push(key());
      this.output(committed, row, open.get(stepId), say);
      open.delete(stepId);
    } else if (type === "step.skipped") open.delete(stepId);
    else if (type === "step.failed") {
      const entry = open.get(stepId);
      const { mayHave, did } = outcomeOf(metadata, attempt);
      if (entry && mayHave) entry.happened = true;
      if (metadata.will_retry) return;
      // The step stays open until a person has decided.
      if (metadata.incident) {
        if (entry && did) entry.happened = true;
        if (entry && OVER_LIMIT.test(String(metadata.message))) entry.limited = true;
        return;
      }
      // The dispatch of an abandoned run is not awaited: it may have happened. One inside a try that rolls back is, unless the run is terminated.
      const { ending } = context;
      const awaited = !ending?.abandon || (reading.rollsBack && !ending.terminated);
      if (entry && attempt > 0 && !awaited) entry.happened = true;
      if (compensates && (entry?.limited || OVER_LIMIT.test(String(metadata.message)))) reading.either.push(key());
      else if (compensates && (did || entry?.happened)) reading.due.push(key());
      open.delete(stepId);
    }
  }

  /** Nothing is undone while a child inside the rollback lives, or a worker has a dispatch. */
  private quiet(reading: Reading, from: number, say: Say): void {
    const lives = reading.children.some(
      ({ id, context }) => (context.run.parentEntry ?? 0) >= from && !this.of(id).ended,
    );
    if (lives) say("an undo began while a child lived");
    if (reading.dispatched) say(`an undo began while ${reading.dispatched} was with a worker`);
  }

  private writes({ run, writes }: Committed, reading: Reading, say: Say): void {
    for (const { to, row } of writes) {
      if (to === "undo_entry") {
        const calls = row.action !== undefined;
        reading.list.push({ ordinal: ++this.ordinals, entry: row.entry, calls });
        if (calls) reading.owed.push(row.forward_key);
      } else if (to === "undo_settled") this.settled(reading, Number(row.ordinal), reading.unwinding, say);
      else if (to === "undo_passed")
        reading.list = row.every ? [] : reading.list.filter(({ entry, calls }) => calls || entry <= row.since);
      else if (to === "undo_handed") {
        const heir = this.of(row.heir);
        const handed = reading.list.map((entry) => ({ ...entry, entry: row.entry }));
        heir.list = [...heir.list, ...handed].sort((left, right) => left.ordinal - right.ordinal);
        reading.list = [];
      } else if (to === "signal_claim" || (to === "signal" && row.consumed)) {
        if (this.signals.has(row.id)) say(`the signal ${row.id} was taken twice`);
        this.signals.add(row.id);
      } else if (to === "new_run" && row.identity.parentRunId === run.id) {
        const child = this.world.runs.get(row.identity.id) as Simulation;
        if (reading.children.includes(child)) say(`the child ${child.id} was made twice`);
        reading.children.push(child);
      }
    }
  }

  /** Undos run newest first, in the list of the run that undoes, each once. The rollback of a try undoes only its own steps. */
  private settled(reading: Reading, ordinal: number, since: number, say: Say): void {
    const newest = reading.list.findLast(({ calls, entry }) => calls && entry > since);
    if (newest?.ordinal !== ordinal) say(`the undo ${ordinal} was settled, the newest owed is ${newest?.ordinal}`);
    reading.list = reading.list.filter((entry) => entry.ordinal !== ordinal);
  }

  /** The output of a foreach or a join consists of the outputs of its children. */
  private output(
    { run, program }: Committed,
    { stepId = "", metadata = {} }: AuditEvent,
    open: Open | undefined,
    say: Say,
  ): void {
    const { output } = metadata;
    const plan = program.steps.get(stepId);
    if (!open || open.given || !plan || output === undefined) return;
    const { children } = this.of(run.id);
    const about = ({ context }: Simulation) => context.run;
    if (plan.type.name === "foreach") {
      const items = children.filter((child) => about(child).parentEntry === open.entry);
      const given = items.map(resultOf);
      if (
        !isSame(
          items.map((item) => about(item).parentBranchId),
          items.map((_, index) => String(index)),
        )
      )
        say("items are out of order");
      if (!isSame(given, output))
        say(`the foreach ${stepId} gave ${JSON.stringify(output)}, not ${JSON.stringify(given)}`);
    } else if (plan.type.joins) {
      const forked = children.filter((child) => program.steps.get(about(child).parentStepId ?? "")?.next === stepId);
      const entry = Math.max(
        ...forked.map((child) => about(child).parentEntry ?? 0).filter((entry) => entry < open.entry),
      );
      const branches = forked.filter((child) => about(child).parentEntry === entry);
      for (const [name, value] of Object.entries(output as JsonObject)) {
        const branch = branches.find((child) => about(child).parentBranchId === name);
        if (!branch || !this.of(branch.id).ended || !isSame(resultOf(branch), value))
          say(`the join ${stepId} says of ${name} what it did not give`);
      }
    }
  }

  /** A cancelled sub-saga that succeeded first keeps its own list; the compensation of its step is owed instead. */
  private sagasThatSucceededAnyway(runId: string, due: readonly string[]): string[] {
    const { children, owed } = this.of(runId);
    const keys = children
      .filter(({ context: { run, state } }) => run.keepsUndo && state === "succeeded")
      // Its step may have got another id since.
      .map(({ context: { run } }) => owed.find((key) => key.endsWith(`:${run.parentEntry}`)) ?? run.id)
      .filter((key) => !due.includes(key));
    return [...new Set(keys)];
  }

  /** Once everything has ended. */
  close(): void {
    for (const [id, { due, either, owed: all, list }] of this.readings) {
      const run = this.world.runs.get(id) as Simulation;
      const { context } = run;
      for (const key of effectsOf(run))
        if (!all.includes(key)) this.tell(id, `a worker did ${key}, and it is not owed`);
      const owed = all.filter((key) => !either.includes(key));
      const late = this.sagasThatSucceededAnyway(id, [...due, ...either]);
      const inTime = owed.filter((key) => !late.includes(key));
      if (!isSame(due, inTime)) this.tell(id, `it owed ${owed}, and should have owed ${due}`);
      // An abandoned run owes only the undos of children that were cancelled before it was.
      if (!context.ending?.abandon && owed.length !== due.length + late.length)
        this.tell(id, `it did not owe just ${late} beside ${due}`);
      const keeps = context.state === "succeeded" ? context.run.parentRunId === undefined : context.ending?.abandon;
      if (!keeps && list.some(({ calls }) => calls)) this.tell(id, `it ended with ${list.length} undos on its list`);
    }
  }
}

/** Whether the try that is being left undoes its steps: it does where its catch takes the error. */
function rollsBack({ context: { unwinding, frames }, program }: Committed): boolean {
  const frame = frames.find(({ entry }) => entry.number === unwinding?.entry);
  const plan = program.steps.get(frame?.step ?? "");
  const errors = (plan?.attributes.rollback === true && plan.type.catches?.(plan.attributes).errors) || [];
  const code = unwinding?.error.code ?? "";
  return errors.some((pattern) => pattern === code || (pattern.endsWith("*") && code.startsWith(pattern.slice(0, -1))));
}

/** A run that moves to another version goes on with its open entries, under the ids that their steps have there. */
function renameOpen(open: Map<string, Open>, renamed: Readonly<Record<string, string>> = {}): void {
  const moved = Object.entries(renamed).map(([old, step]) => [step, open.get(old)] as const);
  for (const old of Object.keys(renamed)) open.delete(old);
  for (const [step, entry] of moved) if (entry) open.set(step, entry);
}

/**
 * The keys of the calls that workers carried out, or may have carried out, and that can be undone: by the version that the run was of when
 * the call was resolved.
 */
function effectsOf(run: Simulation): readonly string[] {
  const { sent, moveOf, world, id } = run;
  const resolved = new Map<string, Simulation["program"]>();
  for (const { run, sends, program } of world.history)
    if (run.id === id)
      for (const send of sends) if (send.kind === "dispatch.resolved") resolved.set(send.dispatchId, program);
  const done = sent.filter(({ dispatchId, call }) => {
    const move = moveOf(dispatchId);
    const program = resolved.get(dispatchId) ?? run.program;
    const did = move && (move.kind !== "failure" || move.outcomeUnknown);
    return did && call.phase === "forward" && program.steps.get(call.stepId)?.compensation !== undefined;
  });
  return done.map(({ call }) => call.idempotencyKey);
}

/** The effect of a failed attempt, read from its row. The row of an aborted step has the attempt's code in its message. */
function outcomeOf({ code, message }: JsonObject, attempt: number): { mayHave: boolean; did: boolean } {
  if (attempt === 0) return { mayHave: false, did: false };
  const said = /^([a-z_]+): /.exec(String(message))?.[1] ?? code;
  const mayHave = said === "timeout" || said === "heartbeat_timeout" || said === "unsure";
  return { mayHave, did: said === "schema_mismatch" };
}

/**
 * The row does not tell which value could not be stored: the output of a step that did its work and must be undone, or the error of one
 * that did not.
 */
const OVER_LIMIT = /^the (output is|run's variables are) over /;

function resultOf({ context: { state, output, ending } }: Simulation): unknown {
  if (state === "succeeded") return output ?? null;
  return { error: ending?.error ?? { code: "cancelled", message: ending?.reason } };
}

/** The laws of one run. */
export function violations(simulation: Simulation): string[] {
  const { rows, context, undo } = simulation;
  const found: string[] = [];
  const say: Say = (sentence) => found.push(sentence);
  let state = "pending";
  for (const row of rows) {
    if (row.from !== state) say(`row ${row.seq} is from ${row.from}, the run was ${state}`);
    state = row.to;
  }
  if (state !== context.state) say(`the rows end in ${state}, the run in ${context.state}`);
  const terminal = rows.filter(({ type }) => type.startsWith("run."));
  if (!isTerminal(context.state)) say(`the run has not ended: ${context.state}, ${JSON.stringify(context.wait)}`);
  if (terminal.length !== 1 || terminal[0] !== rows.at(-1)) say("there is not one terminal row, last");
  if (rows.filter(({ type }) => type === "compensation.started").length > 1) say("more than one compensation.started");
  found.push(...dispatchViolations(simulation));
  const open = simulation.tasks.filter((task) => task.state === "open");
  if (isTerminal(context.state) && open.length > 0) say(`the run ended and ${open.length} of its tasks are open`);
  if (isTerminal(context.state) && simulation.world.waits.has(simulation.id)) say("the run ended and waits for events");
  const undone = rows.filter(({ type, metadata }) => metadata?.phase === "compensation" && type === "step.started");
  if (context.state === "succeeded" && undone.some(({ to }) => to === "compensating"))
    say("a run that succeeded went down");
  if (context.state !== "succeeded" && !context.ending?.abandon) {
    const owed = undo.filter((entry) => entry.state === "owed");
    if (owed.length > 0) say(`the run ended and owes ${owed.length} undos`);
    const order = undo.filter((entry) => entry.action !== undefined).map((entry) => entry.stepId);
    const did = undone.map((row) => row.stepId);
    const rolledBack = undone.some(({ to }) => to === "running");
    const right = rolledBack ? isSame(did.toSorted(), order.toSorted()) : isSame(did, order.toReversed());
    if (!right) say(`undone ${did}, owed ${order}`);
  }
  if (!context.requiresManualReview && context.state !== "succeeded" && undo.some(({ state }) => state === "failed"))
    say("an undo failed for good and nobody is asked to review");
  return found;
}

function isSame(left: unknown, right: unknown): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}

/** Every attempt that was dispatched is resolved once, and attempts count up. */
function dispatchViolations({ rows }: Simulation): string[] {
  const found: string[] = [];
  const attempts = new Map<string, number>();
  let open: string | undefined;
  for (const { type, stepId = "", attempt } of rows) {
    const name = `${stepId}#${attempt}`;
    if (type === "step.dispatched") {
      if (open) found.push(`${name} was dispatched while ${open} was open`);
      if (attempt !== (attempts.get(stepId) ?? 0) + 1) found.push(`${name} does not count on`);
      attempts.set(stepId, attempt);
      open = name;
    } else if ((type === "step.succeeded" || type === "step.failed") && attempt > 0) {
      if (open !== name) found.push(`${name} was resolved while ${open} was open`);
      open = undefined;
    } else if (type.startsWith("run.") && open) found.push(`the run ended while ${open} was open`);
  }
  return found;
}
