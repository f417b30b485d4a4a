// Processor time and memory of processes, sampled from /proc while a load runs. On systems without /proc, and for processes of other
// machines, both are unknown (null). A process that begins and ends between two samples is missed.
import { readFileSync } from "node:fs";
import type { Processes, Role } from "../result.js";

/** The processes of each role. Null: they are not on this machine. */
export type ProcessIds = Readonly<Partial<Record<Role, readonly number[] | null>>>;

const SAMPLE_MS = 250;
/** Ticks in which Linux shows CPU times to programs, on every architecture that Node supports. */
const TICKS_PER_SECOND = 100;

interface Usage {
  readonly cpuSeconds: number;
  readonly memoryBytes: number;
}

interface RoleUsage {
  /** Usage by process, at the beginning of the measurement and at the last sample. A process that began later began at 0. */
  readonly first: Map<number, number>;
  readonly last: Map<number, number>;
  peakBytes: number;
  known: boolean;
}

/** One measurement. */
export class Meter {
  private readonly roles = new Map<Role, RoleUsage>();
  private timer: NodeJS.Timeout | undefined;
  private sampling: Promise<void> = Promise.resolve();

  constructor(private readonly processIds: () => Promise<ProcessIds>) {}

  async begin(): Promise<void> {
    await this.sample();
    for (const { first, last } of this.roles.values()) for (const [pid, cpu] of last) first.set(pid, cpu);
    this.timer = setInterval(() => {
      // A failed sample is repeated by the next one; the last one is awaited.
      this.sampling = this.sampling.then(() => this.sample()).catch(() => {});
    }, SAMPLE_MS);
  }

  async end(): Promise<Processes[]> {
    clearInterval(this.timer);
    await this.sampling;
    await this.sample();
    return [...this.roles].map(([role, { first, last, peakBytes, known }]) => {
      const used = [...last].reduce((sum, [pid, cpu]) => sum + cpu - (first.get(pid) ?? 0), 0);
      return { role, cpu_seconds: known ? rounded(used) : null, peak_memory_bytes: known ? peakBytes : null };
    });
  }

  private async sample(): Promise<void> {
    for (const [role, pids] of Object.entries(await this.processIds()) as [Role, readonly number[] | null][]) {
      const usage = this.usageOf(role);
      if (pids !== null) sampleRole(usage, pids);
    }
  }

  private usageOf(role: Role): RoleUsage {
    const known = this.roles.get(role);
    if (known) return known;
    const usage: RoleUsage = { first: new Map(), last: new Map(), peakBytes: 0, known: false };
    this.roles.set(role, usage);
    return usage;
  }
}

function sampleRole(usage: RoleUsage, pids: readonly number[]): void {
  let bytes = 0;
  for (const pid of pids) {
    const now = usageOf(pid);
    if (!now) continue;
    usage.known = true;
    usage.last.set(pid, now.cpuSeconds);
    bytes += now.memoryBytes;
  }
  usage.peakBytes = Math.max(usage.peakBytes, bytes);
}

/** Undefined: there is no such process, or no /proc. */
function usageOf(pid: number): Usage | undefined {
  try {
    const [user = 0, system = 0] = statOf(pid).slice(11, 13).map(Number);
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const bytes = (name: string) => 1_024 * Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0);
    return { cpuSeconds: (user + system) / TICKS_PER_SECOND, memoryBytes: bytes("VmRSS") - bytes("RssShmem") };
  } catch {
    return undefined;
  }
}

/** User and system seconds of those of the processes that there are. */
export const cpuSecondsOf = (pids: readonly number[]): number =>
  pids.reduce((sum, pid) => sum + (usageOf(pid)?.cpuSeconds ?? 0), 0);

/** The fields from the third one, `state`: the second one is the name, which may hold spaces. */
function statOf(pid: number): string[] {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  return text.slice(text.lastIndexOf(")") + 2).split(" ");
}

/** The process and those below it, as far as its main thread began them, as that of Node does. */
export function familyOf(pid: number): number[] {
  return [pid, ...childrenOf(pid).flatMap(familyOf)];
}

function childrenOf(pid: number): number[] {
  try {
    return (readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").match(/\d+/g) ?? []).map(Number);
  } catch {
    return [];
  }
}

/** Null where that process is no Postgres of this machine: the server runs elsewhere, or in a container. */
export function ifPostgres(pids: readonly number[]): readonly number[] | null {
  const ours = pids.filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/comm`, "utf8").startsWith("postgres");
    } catch {
      return false;
    }
  });
  return ours.length > 0 || pids.length === 0 ? ours : null;
}

const rounded = (seconds: number) => Math.round(seconds * 100) / 100;
