// A seeded scheduler of a world. One seed determines which message, run, worker or clock moves next, which commits are lost, which are
// written without an answer, when nodes die, and which commands come from outside. The laws are in chain.ts.
import type { Dispatch, RunCommand, RunId, SentCommand } from "../../machines/index.js";
import { ACTS, decisionOn } from "./acts.js";
import { strandedIn } from "./chain.js";
import { type Faults, Simulation, type SimulationOptions, type WorkerMove, type World } from "./simulation.js";

export type Random = () => number;

/** Mulberry32: the same seed always gives the same numbers. */
export function randomOf(seed: number): Random {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The probability of each fault. Each story has its own, because faults that are always rare never meet. */
export interface Weather {
  readonly lost: number;
  readonly unheard: number;
  readonly crash: number;
  /** Others move between a decision and its commit. */
  readonly between: number;
  readonly clock: number;
  readonly late: number;
  readonly repeat: number;
  readonly signal: number;
  readonly cancel: number;
  readonly quarantine: number;
  /** A person acts on a run. */
  readonly act: number;
}

const RATES = [
  "lost",
  "unheard",
  "crash",
  "between",
  "clock",
  "late",
  "repeat",
  "signal",
  "cancel",
  "quarantine",
  "act",
] as const;
export const CALM = Object.fromEntries(RATES.map((name) => [name, 0])) as unknown as Weather;

function weatherOf(random: Random): Weather {
  const often = (...rates: number[]) => rates[Math.floor(random() * rates.length)] as number;
  return {
    lost: often(0, 0.02, 0.2),
    unheard: often(0, 0.02, 0.2),
    crash: often(0, 0.01, 0.1),
    between: often(0, 0.1, 0.5),
    clock: often(0, 0.02, 0.1),
    late: often(0, 0.05),
    repeat: often(0, 0.05),
    signal: often(0, 0.05),
    cancel: often(0, 0, 0.01, 0.04),
    quarantine: often(0, 0, 0.02),
    act: often(0, 0.02, 0.1),
  };
}

/** A command from outside: asked again with its id until it is answered. */
type Asked = SentCommand;

const MAX_MOVES = 4_000;

export class Scheduler implements Faults {
  readonly world: World;
  /** The last moves, in short sentences. */
  readonly story: string[] = [];
  /** Counts of the faults in the whole story. */
  readonly seen: Record<string, number> = {};
  private readonly asked: Asked[] = [];
  private readonly root: Simulation;
  private isCalm = false;
  private nesting = 0;

  constructor(
    options: SimulationOptions,
    private readonly random: Random,
    private readonly weather: Weather = weatherOf(random),
  ) {
    this.root = new Simulation({ worker: workerOf(random), ...options });
    this.world = this.root.world;
    this.world.stepwise = true;
    this.world.choose = (count) => this.below(count);
    this.world.faults = this;
  }

  private below(count: number): number {
    return Math.floor(this.random() * count);
  }

  private chance(name: keyof Weather): boolean {
    if (this.isCalm || this.random() >= this.weather[name]) return false;
    this.seen[name] = (this.seen[name] ?? 0) + 1;
    return true;
  }

  private tell(sentence: string): void {
    this.story.push(`${"  ".repeat(this.nesting)}${sentence}`);
    if (this.story.length > 200) this.story.shift();
  }

  private nameOf(runId: RunId): string {
    return `r${[...this.world.runs.keys()].indexOf(runId)}`;
  }

  /** Plays until all runs have ended. When nothing moves any more, the runs that were started from outside are cancelled. */
  play(): string[] {
    for (let moves = 0; moves < MAX_MOVES && !this.world.ended; moves++) {
      if (this.isAtRest()) {
        const stranded = strandedIn(this.world);
        if (stranded.length > 0) return stranded;
        if (!this.release() && !this.clock()) this.cancelRoots();
      } else this.move();
      // At the end there are no more faults: a run that does not end then hangs.
      if (moves === MAX_MOVES / 2) this.cancelRoots();
      if (moves > MAX_MOVES / 2) this.isCalm = true;
    }
    return [];
  }

  private isAtRest(): boolean {
    return this.asked.length === 0 && this.world.moves().length === 0;
  }

  private move(): void {
    if (this.chance("clock")) this.clock();
    else if (this.chance("late")) this.reportAgain();
    else if (this.chance("repeat")) this.deliverAgain();
    else if (this.chance("signal")) this.ask(this.pick(this.living), this.signalTo());
    else if (this.chance("cancel"))
      this.ask(this.pick(this.living), { type: "cancel", compensate: this.random() < 0.8, actor: "api" });
    else if (this.chance("quarantine")) this.ask(this.pick(this.living), { type: "quarantine" });
    else if (this.chance("act")) this.ask(this.pick(this.living), this.pick(Object.values(ACTS)));
    else if (this.asked.length > 0 && this.random() < 0.3) this.askAgain();
    else if (!this.step() && this.asked.length > 0) this.askAgain();
  }

  private step(): boolean {
    const moves = this.world.moves();
    moves[this.below(moves.length)]?.();
    return moves.length > 0;
  }

  private get living(): Simulation[] {
    return [...this.world.runs.values()].filter(({ ended }) => !ended);
  }

  private pick<T>(among: readonly T[]): T | undefined {
    return among[this.below(among.length)];
  }

  private clock(): boolean {
    if (!this.isCalm && this.random() < 0.2) this.world.now += this.below(1500);
    const moved = this.world.elapse();
    this.tell(moved ? `the clock: ${this.world.now}` : "nothing is due");
    return moved;
  }

  private signalTo(): RunCommand & { type: "signal" } {
    const id = `outside-${this.world.signals.length}-${this.below(1e9)}`;
    return { type: "signal", id, name: this.random() < 0.7 ? "go" : "stop", payload: {}, actor: "api" };
  }

  private ask(run: Simulation | undefined, command: RunCommand | undefined): void {
    if (!run || !command) return;
    this.asked.push({ to: run.id, id: `asked-${this.below(2 ** 40)}`, command });
    this.askAgain(this.asked.length - 1);
  }

  private askAgain(index = this.below(this.asked.length)): void {
    const { to, id, command } = this.asked[index] as Asked;
    const answer = this.world.runs.get(to)?.tryOnce(command, id);
    this.tell(`${command.type} asked of ${this.nameOf(to)}: ${answer ? JSON.stringify(answer) : "no answer"}`);
    if (answer) this.asked.splice(index, 1);
  }

  /** People help what stands still: they release, resume, and decide incidents. */
  private release(): boolean {
    let helped = 0;
    for (const run of this.living) {
      const { quarantined, held } = run.context;
      const act = quarantined ? RELEASE : held ? ACTS.resume : decisionOn(run, this.below(6));
      if (act) helped++;
      this.ask(run, act);
    }
    return helped > 0;
  }

  private cancelRoots(): void {
    for (const run of this.living)
      if (run.context.run.parentRunId === undefined)
        this.asked.push({ to: run.id, id: `last-${run.id}-${this.random()}`, command: CANCEL });
  }

  /** A worker repeats a report, or reports late, with a new id as a new process would, or with the old one. */
  private reportAgain(): void {
    const run = this.pick([...this.world.runs.values()].filter(({ sent }) => sent.length > 0));
    const dispatch = run && this.pick(run.sent);
    const report = dispatch && run.reportOn(dispatch.dispatchId);
    if (!report) return;
    this.tell(`the worker reports ${dispatch.call.stepId}#${dispatch.attempt} of ${this.nameOf(run.id)} again`);
    if (this.random() < 0.5) run.tryOnce(report, `${dispatch.dispatchId}/report`);
    else run.tryOnce(report, `${dispatch.dispatchId}/late-${this.below(3)}`);
  }

  private deliverAgain(): void {
    const message = this.pick(this.world.sent);
    if (!message || this.world.inbox.some(({ id }) => id === message.id)) return;
    this.tell(`${message.command.type} delivered again to ${this.nameOf(message.to)}`);
    this.world.deliver(message);
  }

  beforeCommit(run: Simulation): boolean {
    if (this.nesting === 0 && this.chance("between")) {
      this.nesting++;
      for (let moves = 1 + this.below(3); moves > 0; moves--) this.step();
      this.nesting--;
    }
    if (this.chance("crash")) {
      this.tell(`all nodes die before ${this.nameOf(run.id)} commits`);
      this.world.crash();
      return false;
    }
    if (!this.chance("lost")) return true;
    this.tell(`${this.nameOf(run.id)} loses a commit`);
    return false;
  }

  afterCommit(run: Simulation): boolean {
    const { state, step, wait } = run.context;
    this.tell(`${this.nameOf(run.id)} is ${state} at ${step ?? "-"}${wait ? `, waits: ${wait.kind}` : ""}`);
    if (this.chance("crash")) {
      this.tell(`all nodes die after ${this.nameOf(run.id)} committed`);
      this.world.crash();
      return false;
    }
    if (!this.chance("unheard")) return true;
    this.tell(`${this.nameOf(run.id)} committed, and does not know it`);
    return false;
  }
}

const RELEASE: RunCommand = { type: "release", actor: "api" };
const CANCEL: RunCommand = { type: "cancel", compensate: true, actor: "api" };

/** Mostly it does what it is asked to. */
function workerOf(random: Random): (dispatch: Dispatch) => WorkerMove {
  const luck = [0.5, 0.8, 0.95][Math.floor(random() * 3)] as number;
  return () => {
    if (random() < luck) return { kind: "result", result: { ok: true } };
    const fate = random();
    if (fate < 0.25) return { kind: "silence" };
    if (fate < 0.5) return { kind: "failure", code: "unsure", retryable: random() < 0.5, outcomeUnknown: true };
    return { kind: "failure", code: fate < 0.75 ? "busy" : "declined", retryable: fate < 0.75, outcomeUnknown: false };
  };
}
