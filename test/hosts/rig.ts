// Hosts as Linux namespaces: each has a network card, processes, a name, and folders of its own, and hangs on one bridge. A host can lose its power, a
// link can be cut, also in one direction, or lose packets. What runs on the hosts is the matter of machines.ts.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { packageRoot } from "../../src/config/package.js";
import { until } from "../harness/until.js";

/** A test that was killed may have left one of this name. */
const BRIDGE = "saga-hosts";
/** After a program has ended by itself, and before it is started again. */
const RESTART_MS = 500;
const LOG_LINES = 2_000;

/** Packages that are unpacked here instead of installed are laid over `/usr` of the hosts. */
const UNPACKED = process.env.SAGA_TEST_HOSTS_ROOT ?? "";
/** A folder that gets the logs of all programs. */
const LOGS = process.env.SAGA_TEST_HOSTS_LOGS ?? "";

const run = (program: string, ...args: readonly string[]) =>
  execFileSync(program, args, { encoding: "utf8", stdio: "pipe" });

const inNetworkOf = (pid: number, ...args: readonly string[]) =>
  run("nsenter", "-t", String(pid), "-n", "--", "ip", ...args);

/** What the machine lacks for hosts of its own, each by name. Empty: nothing. */
export function missingHere(programs: readonly string[]): readonly string[] {
  if (process.platform !== "linux") return ["Linux"];
  if (process.getuid?.() !== 0) return ["the rights of root"];
  const folders = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"];
  const roots = UNPACKED === "" ? [""] : ["", UNPACKED];
  const places = (name: string) => (name.startsWith("/") ? [name] : folders.map((folder) => `${folder}/${name}`));
  const isHere = (name: string) => roots.some((root) => places(name).some((path) => existsSync(root + path)));
  const missing = ["ip", "unshare", "nsenter", "setpriv", "nft", "/usr/bin/python3", ...programs].filter(
    (name) => !isHere(name),
  );
  return missing.length > 0 || mayUnshare() ? missing : ["the right to make namespaces"];
}

/** A container may be root and have no such right. */
function mayUnshare(): boolean {
  try {
    run("unshare", "--net", "--mount", "--pid", "--fork", "true");
    return true;
  } catch {
    return false;
  }
}

/** The bridge, with an address for this process. */
export class Network {
  private nth = 0;

  constructor(address: string) {
    this.remove();
    run("ip", "link", "add", BRIDGE, "type", "bridge");
    run("ip", "addr", "add", address, "dev", BRIDGE);
    run("ip", "link", "set", BRIDGE, "up");
  }

  /** The name of the card's other end. */
  plug(pid: number, address: string): string {
    const name = `saga-v${this.nth++}`;
    unplug(name);
    run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", String(pid));
    this.attach(name);
    const inside = (...args: readonly string[]) => inNetworkOf(pid, ...args);
    inside("addr", "add", address, "dev", "eth0");
    inside("link", "set", "eth0", "up");
    inside("link", "set", "lo", "up");
    return name;
  }

  attach(name: string): void {
    run("ip", "link", "set", name, "master", BRIDGE, "up");
  }

  remove(): void {
    unplug(BRIDGE);
  }
}

function unplug(name: string): void {
  try {
    run("ip", "link", "del", name);
  } catch {
    // There is none.
  }
}

export interface ProgramSpec {
  readonly name: string;
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Absent: root. */
  readonly user?: string;
}

/** One program of a host. It is started again if it ends by itself, as an init system does. */
export class Program {
  readonly lines: string[] = [];
  private child: ChildProcess | undefined;
  private wanted = false;

  constructor(
    private readonly host: Host,
    readonly spec: ProgramSpec,
  ) {}

  start(): void {
    if (this.child) return;
    this.wanted = true;
    const { command, env, user } = this.spec;
    const as = user === undefined ? [] : ["setpriv", `--reuid=${user}`, `--regid=${user}`, "--init-groups"];
    const child = this.host.enter([...as, ...command], env);
    this.child = child;
    for (const stream of [child.stdout, child.stderr])
      if (stream) createInterface({ input: stream }).on("line", (line) => this.keep(line));
    child.once("exit", () => {
      this.child = undefined;
      if (this.wanted) void delay(RESTART_MS).then(() => this.wanted && this.start());
    });
  }

  private keep(line: string): void {
    this.lines.push(line);
    if (this.lines.length > LOG_LINES) this.lines.shift();
    if (LOGS !== "") appendFileSync(join(LOGS, `${this.host.name}.${this.spec.name}.log`), `${line}\n`);
  }

  /** The program itself, whose parent only holds the door of the namespaces open. */
  private get pid(): number | undefined {
    return this.child?.pid === undefined ? undefined : childrenOf(this.child.pid)[0];
  }

  signal(signal: NodeJS.Signals): void {
    if (this.pid !== undefined) process.kill(this.pid, signal);
  }

  /** In order. Complete on return. */
  async stop(within = 90_000): Promise<void> {
    this.wanted = false;
    this.signal("SIGTERM");
    await until(() => this.child === undefined, { within, what: `the end of ${this.spec.name} on ${this.host.name}` });
  }

  /** With all that it has started in its process group. */
  async kill(): Promise<void> {
    this.wanted = false;
    const { child } = this;
    if (child?.pid === undefined) return;
    killQuietly(-child.pid);
    await until(() => this.child === undefined, { what: `the death of ${this.spec.name} on ${this.host.name}` });
  }

  /** Its host has lost its power. Complete when it has ended. */
  async end(): Promise<void> {
    this.wanted = false;
    await until(() => this.child === undefined, { what: `the end of ${this.spec.name} without power` });
  }
}

function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
  return text.split(" ").filter(Boolean).map(Number);
}

/** All that it has written so far. */
function outputOf({ stdout, stderr }: ChildProcess): () => string {
  let said = "";
  for (const stream of [stdout, stderr])
    stream?.on("data", (part) => {
      said += part;
    });
  return () => said;
}

/** It says so. */
async function untilUp(child: ChildProcess, what: string): Promise<void> {
  const said = outputOf(child);
  const isUp = () => said().includes("up\n");
  await until(isUp, { within: 10_000, what }).catch((error: Error) => {
    throw new Error(`${error.message}: ${said()}`);
  });
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

/**
 * The first process of a host. Its folders: `/var` is empty but for what the rig puts there, `/etc` is this machine's with the files of the host over it,
 * `/usr` this machine's with unpacked packages over it. It takes care of orphans as bash does, so none remains as a zombie.
 */
const INIT = `
set -e
hostname "$1"
mount --bind "$2/var" /var
mount -t tmpfs tmpfs /run
mkdir -m 1777 -p /run/lock; mkdir -p /run/postgresql; chown postgres /run/postgresql
mount -t overlay etc -o "lowerdir=/etc,upperdir=$2/etc,workdir=$2/etc.work" /etc
if [ -n "$3" ]; then
  mount -t overlay usr -o "lowerdir=$3/usr:/usr" /usr
  [ ! -d "$3/lib" ] || mount -t overlay lib -o "lowerdir=$3/lib:/usr/lib" /usr/lib
fi
echo up
while :; do sleep 3600; done`;

export interface HostOptions {
  readonly name: string;
  readonly address: string;
  /** Its disk: it outlives the loss of power. */
  readonly folder: string;
}

export class Host {
  readonly name: string;
  readonly address: string;
  private readonly folder: string;
  private init: ChildProcess | undefined;
  private pid = 0;
  private card = "";
  private wire: ChildProcess | undefined;
  private readonly programs = new Map<string, Program>();

  constructor(
    private readonly network: Network,
    { name, address, folder }: HostOptions,
  ) {
    this.name = name;
    this.address = address;
    this.folder = folder;
    for (const part of ["var/tmp", "var/lib", "var/log", "etc", "etc.work"])
      mkdirSync(join(folder, part), { recursive: true });
    chmodSync(join(folder, "var/tmp"), 0o1777);
    symlinkSync("/run", join(folder, "var/run"));
  }

  /** Before the host is on, or for what a program reads when it starts. */
  write(path: string, text: string, user?: string): void {
    const file = join(this.folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    if (user !== undefined) chownSync(file, userId(user), userId(user));
  }

  folderFor(path: string, user?: string): void {
    const folder = join(this.folder, path);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (user !== undefined) chownSync(folder, userId(user), userId(user));
  }

  add(spec: ProgramSpec): Program {
    const program = new Program(this, spec);
    this.programs.set(spec.name, program);
    return program;
  }

  get(name: string): Program {
    const program = this.programs.get(name);
    if (!program) throw new Error(`${this.name} has no ${name}`);
    return program;
  }

  get all(): readonly Program[] {
    return [...this.programs.values()];
  }

  /** With its programs. */
  async powerOn(): Promise<void> {
    const namespaces = ["--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"];
    const args = [...namespaces, "bash", "-c", INIT, "init", this.name, this.folder, UNPACKED];
    // With this process, all of them end.
    const init = spawn("setpriv", ["--pdeathsig", "KILL", "unshare", ...args], {
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    this.init = init;
    await untilUp(init, this.name);
    this.pid = childrenOf(init.pid ?? 0)[0] ?? 0;
    this.card = this.network.plug(this.pid, `${this.address}/24`);
    for (const program of this.programs.values()) program.start();
  }

  /** All processes end at the same moment, without a word. */
  async powerOff(): Promise<void> {
    const { init } = this;
    if (init?.exitCode !== null || init.signalCode !== null) return;
    const ends = this.all.map((program) => program.end());
    killQuietly(this.pid);
    await until(() => init.exitCode !== null || init.signalCode !== null, { what: `the end of ${this.name}` });
    await Promise.all(ends);
    // The kernel clears the namespace up later.
    unplug(this.card);
  }

  enter(command: readonly string[], env: Readonly<Record<string, string>> = {}): ChildProcess {
    const base = {
      PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      HOME: "/var/tmp",
      LANG: "C.UTF-8",
    };
    const doors = ["-t", String(this.pid), "-m", "-u", "-i", "-n", "-p", "--"];
    const args = [...doors, "sh", "-c", 'cd /; exec "$@"', "sh", ...command];
    return spawn("nsenter", args, { env: { ...base, ...env }, stdio: ["ignore", "pipe", "pipe"], detached: true });
  }

  /** Throws with what the command says. */
  async command(...command: readonly string[]): Promise<string> {
    const child = this.enter(command);
    const said = outputOf(child);
    const code = await new Promise((resolve) => child.once("close", resolve));
    if (code !== 0) throw new Error(`${this.name}: ${command.join(" ")}: ${said()}`);
    return said();
  }

  /** Kills every process of the host whose name begins so. Returns how many. */
  async killAll(...names: readonly string[]): Promise<number> {
    const namespace = readlinkSync(`/proc/${this.pid}/ns/pid`);
    const found = () => readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && this.isNamed(pid, namespace, names));
    const count = found().length;
    await until(
      () => {
        const left = found();
        for (const pid of left) killQuietly(Number(pid));
        return left.length === 0;
      },
      { what: `the death of ${names.join(", ")} on ${this.name}` },
    );
    return count;
  }

  private isNamed(pid: string, namespace: string, names: readonly string[]): boolean {
    try {
      if (readlinkSync(`/proc/${pid}/ns/pid`) !== namespace) return false;
      const status = readFileSync(`/proc/${pid}/status`, "utf8");
      if (/^State:\s+Z/m.test(status)) return false;
      const name = /^Name:\s+(.*)$/m.exec(status)?.[1] ?? "";
      return names.some((begin) => name.startsWith(begin));
    } catch {
      return false;
    }
  }

  cut(): void {
    run("ip", "link", "set", this.card, "down");
  }

  mend(): void {
    run("ip", "link", "set", this.card, "up");
  }

  /** Every frame takes so long to the bridge and from it, so from host to host twice as long. The card is another one meanwhile, with the same addresses. */
  async slow(ms: number): Promise<void> {
    const [outer, inner] = [`${this.card}-out`, `${this.card}-in`];
    const script = join(packageRoot(), "test", "hosts", "slow-link.py");
    const wire = spawn("setpriv", ["--pdeathsig", "KILL", "/usr/bin/python3", script, String(ms), outer, inner]);
    this.wire = wire;
    await untilUp(wire, "a slow link");
    const mac = /link\/ether (\S+)/.exec(inNetworkOf(this.pid, "-o", "link", "show", "eth0"))?.[1];
    this.network.attach(outer);
    const inside = (...args: readonly string[]) => inNetworkOf(this.pid, ...args);
    inside("link", "set", "eth0", "down");
    inside("link", "set", "eth0", "name", "spare");
    run("ip", "link", "set", inner, "netns", String(this.pid), "name", "eth0");
    inside("link", "set", "eth0", "address", mac ?? "");
    inside("addr", "add", `${this.address}/24`, "dev", "eth0");
    inside("link", "set", "eth0", "up");
  }

  async fast(): Promise<void> {
    const { wire } = this;
    wire?.kill("SIGKILL");
    await until(() => wire?.signalCode !== null, { what: "the end of a slow link" });
    const inside = (...args: readonly string[]) => inNetworkOf(this.pid, ...args);
    await until(() => inside("link", "set", "spare", "name", "eth0") === "", {
      within: 10_000,
      what: "the card of before",
    });
    inside("link", "set", "eth0", "up");
  }

  /** Drops what the rule matches, without a word. `ingress`: what comes to the host, `egress`: what it sends. Rules add up until `pass`. */
  async drop(direction: "ingress" | "egress", rule = ""): Promise<void> {
    const chain = `${direction} { type filter hook ${direction} device eth0 priority 0; }`;
    await this.command(
      "nft",
      `add table netdev fault; add chain netdev fault ${chain}; add rule netdev fault ${direction} ${rule} drop`,
    );
  }

  async pass(): Promise<void> {
    await this.command("nft", "add table netdev fault; delete table netdev fault");
  }
}

const ids = new Map<string, number>();
function userId(user: string): number {
  const known = ids.get(user) ?? Number(run("id", "-u", user));
  ids.set(user, known);
  return known;
}
