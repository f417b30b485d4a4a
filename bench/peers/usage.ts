// CPU time and memory of the processes of a system, from /proc. They are counted as trees: a process that has ended counts with its parent
// if that has waited for it, as Postgres and node:cluster do.
import { readdirSync, readFileSync } from "node:fs";
import type { Processes } from "../result.js";
import type { ProcessRoots, Role } from "./system.js";

const SAMPLE_MS = 1_000;
/** Linux has 100 ticks a second on every platform that Node supports. */
const TICKS_PER_SECOND = 100;
const PAGE_BYTES = 4_096;

/** CPU time between `begin` and `end`, and the most memory in between. */
export class Usage {
  private readonly roles: readonly RoleUsage[];
  private timer: NodeJS.Timeout | undefined;

  constructor(roots: ProcessRoots) {
    this.roles = (Object.entries(roots) as [Role, readonly number[] | null][]).map(
      ([role, pids]) => new RoleUsage(role, pids),
    );
  }

  begin(): void {
    for (const role of this.roles) role.begin();
    this.timer = setInterval(() => this.sample(), SAMPLE_MS);
  }

  end(): void {
    clearInterval(this.timer);
    for (const role of this.roles) role.end();
    this.sample();
  }

  processes(): Processes[] {
    return this.roles.map((role) => role.processes());
  }

  private sample(): void {
    for (const role of this.roles) role.sample();
  }
}

class RoleUsage {
  private cpu = 0;
  private peak = 0;

  constructor(
    private readonly role: Role,
    private readonly pids: readonly number[] | null,
  ) {}

  begin(): void {
    this.cpu = -cpuSeconds(this.pids ?? []);
  }

  end(): void {
    this.cpu += cpuSeconds(this.pids ?? []);
  }

  sample(): void {
    this.peak = Math.max(this.peak, memoryBytes(this.pids ?? []));
  }

  processes(): Processes {
    const { role, cpu, peak } = this;
    return { role, cpu_seconds: this.pids && cpu, peak_memory_bytes: this.pids && peak };
  }
}

interface Stat {
  readonly pid: number;
  readonly parent: number;
  readonly ticks: number;
}

/** User and system seconds of these processes and all of their descendants. */
function cpuSeconds(roots: readonly number[]): number {
  return tree(roots).reduce((sum, { ticks }) => sum + ticks, 0) / TICKS_PER_SECOND;
}

/** Resident memory without what is shared: the buffers of Postgres. */
function memoryBytes(roots: readonly number[]): number {
  return tree(roots).reduce((sum, { pid }) => sum + residentBytes(pid), 0);
}

/** The server process of a backend. Undefined if that is no process of this machine. */
export function postmasterOf(backend: number): number | undefined {
  return readProc(`/proc/${backend}/comm`)?.startsWith("postgres") ? statOf(backend)?.parent : undefined;
}

function tree(roots: readonly number[]): Stat[] {
  const all = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => statOf(Number(name)) ?? []);
  const found = all.filter(({ pid }) => roots.includes(pid));
  for (const { pid } of found) found.push(...all.filter(({ parent }) => parent === pid));
  return found;
}

function statOf(pid: number): Stat | undefined {
  const text = readProc(`/proc/${pid}/stat`);
  if (text === undefined) return undefined;
  // The name, in parentheses, may contain anything. Then: state, parent, …; utime, stime, cutime and cstime are fields 14 to 17.
  const fields = text
    .slice(text.lastIndexOf(")") + 2)
    .split(" ")
    .map(Number);
  return { pid, parent: fields[1] ?? 0, ticks: fields.slice(11, 15).reduce((sum, ticks) => sum + ticks, 0) };
}

function residentBytes(pid: number): number {
  const [, resident = 0, shared = 0] = (readProc(`/proc/${pid}/statm`) ?? "").split(" ").map(Number);
  return (resident - shared) * PAGE_BYTES;
}

/** Undefined: the process has ended. */
function readProc(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
