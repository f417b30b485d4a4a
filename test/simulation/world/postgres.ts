// Postgres for a cluster that is simulated in one process: the drivers of all nodes speak the protocol of Postgres with one PGlite, a Postgres
// in WASM, and everything between them takes simulated time. PGlite is one backend. So a session has it alone from the start of a
// transaction to its end, and what belongs to a session in a real server is shared here: settings, temporary tables, advisory locks of
// sessions, pg_backend_pid(). COPY from the client is not supported.
//
// Every statement runs in one synchronous call, so nothing else in the process moves meanwhile. The clocks of Postgres read the global
// Date.now, and its random numbers come from the simulation.
import { Duplex } from "node:stream";
import { MemoryFS, PGlite } from "pglite";
import { imageOf, returnTo, type Snapshot, type Wasm } from "./snapshot.js";

export interface StoreTime {
  /** Calls back after simulated milliseconds. */
  later(ms: number, callback: () => void): void;
  /** A seeded random number from 0 to 1. */
  random(): number;
}

/** What happens to a group of messages: it reaches the server after `latencyMs`, and its answer leaves no sooner and takes `answerMs`. */
export interface SessionFate {
  readonly latencyMs: number;
  readonly answerMs: number;
  /** The session ends instead of executing the group, or after that and without the answer. */
  readonly cut?: "before" | "after";
  readonly refused?: Refusal;
}

/** What a server does not do for now: it takes no writes, or no new sessions. */
export interface Refusal {
  readonly what: "writes" | "sessions";
  readonly sqlState: string;
  readonly message: string;
}

const IDLE_IN_TRANSACTION_MS = 10_000;

/**
 * The settings of all sessions. Those that a session asks for as it begins are ignored: statement_timeout, plan_cache_mode and others would
 * hold for the sessions of others as well. The last ones keep the memory, and so a snapshot, small.
 */
const SETTINGS = [
  "enable_seqscan=off",
  "enable_mergejoin=off",
  "TimeZone=UTC",
  "DateStyle=ISO, MDY",
  "IntervalStyle=postgres",
  "extra_float_digits=1",
  "bytea_output=hex",
  "shared_buffers=16MB",
  "full_page_writes=off",
];

/** What the server says as a session begins: what the driver looks at. */
const PARAMETERS: Readonly<Record<string, string>> = {
  server_version: "18.0",
  client_encoding: "UTF8",
  in_hot_standby: "off",
  default_transaction_read_only: "off",
};

const CANCEL_REQUEST = 80877102;
const ENCRYPTION_REQUESTS = [80877103, 80877104];

/** The messages at which a group ends: Sync, Query, Flush and Terminate. */
const ENDS_GROUP = "SQHX";

interface Listen {
  readonly stops: boolean;
  /** `*`: all. */
  readonly channel: string;
}

interface Statement {
  readonly listens: readonly Listen[];
  readonly writes: boolean;
}

interface Session {
  readonly owner: string;
  readonly pid: number;
  readonly socket: ClientSocket;
  /** Bytes of a message whose rest is on its way. */
  unread: Buffer;
  /** Messages of a group whose rest is on its way. */
  group: Buffer[];
  /** Groups on their way to the server, in order. */
  inbox: Group[];
  /** On their way to the node, in order. */
  outbox: Letter[];
  /** Prepared, by name. */
  readonly statements: Map<string, Statement>;
  readonly listensTo: Set<string>;
  /** They count when their transaction commits. */
  listening: Listen[];
  hasBegun: boolean;
  hasEnded: boolean;
  /** Counts the groups after which it kept the backend, so that a timeout knows whether another has come. */
  quiet: number;
}

interface Group {
  readonly session: Session;
  readonly kind: "greeting" | "messages" | "end";
  /** Of a greeting: the answer. */
  readonly messages: readonly Buffer[];
  readonly fate: SessionFate;
  hasArrived: boolean;
}

interface Letter {
  /** Without them the session closes. */
  readonly bytes?: Buffer;
  readonly error?: Error;
  hasArrived: boolean;
}

const WRITES = /\b(?:insert|update|delete|merge|create|alter|drop|truncate)\b/i;
const LISTENS = /(?:^|;)\s*(un)?listen\s+("(?:[^"]|"")+"|\*|[\w$]+)/gi;

export class SimulatedPostgres {
  /** The faults, set by the simulator: asked for each group of messages that arrives, and for each notification. */
  fate: (owner: string) => SessionFate = () => ({ latencyMs: 0, answerMs: 0 });

  private readonly sessions = new Set<Session>();
  private readonly frozen = new Set<string>();
  /** Groups that have reached the server and wait for the backend, in order. */
  private waiting: Group[] = [];
  /** Has the backend: it is in a transaction, or has sent Flush and not yet Sync. */
  private holder: Session | undefined;
  /** Statements of ended sessions. They are closed when no session has the backend. */
  private unclosed: string[] = [];
  private listensAgain = false;
  private lastPid = 0;
  private isServing = false;
  private inside = 0;
  private working: Promise<unknown> = Promise.resolve();
  private readonly wasm: Wasm;
  private image: Snapshot | undefined;

  private constructor(
    private readonly pg: PGlite,
    private readonly entropy: Entropy,
    private time: StoreTime,
  ) {
    this.wasm = pg.Module as unknown as Wasm;
    // Those of `query`. `run` reads the others itself.
    pg.onNotification((channel, payload) => this.notify(channel, message("A", int32(0), text(channel), text(payload))));
  }

  /** A fresh database. It is the same for every seed, if Date.now says the same. */
  static async open(time: StoreTime): Promise<SimulatedPostgres> {
    const entropy = new Entropy();
    const settings = SETTINGS.flatMap((setting) => ["-c", setting]);
    const pg = await PGlite.create({ fs: entropy, startParams: [...PGlite.defaultStartParams, ...settings] });
    // A library that is loaded between a snapshot and its return would be loaded for the host, and not for Postgres.
    await pg.exec("do $$ begin null; end $$");
    entropy.random = () => time.random();
    return new SimulatedPostgres(pg, entropy, time);
  }

  /** Work of PGlite is pending in real time. Simulated time must not pass meanwhile. */
  get isBusy(): boolean {
    return this.inside > 0;
  }

  async idle(): Promise<void> {
    while (this.isBusy) await this.working;
  }

  /** A new session of a node: the end that its driver gets. */
  connect(owner: string): Duplex {
    const session: Session = {
      owner,
      pid: ++this.lastPid,
      socket: new ClientSocket({
        received: (bytes) => this.receive(session, bytes),
        closed: () => this.arrive(session, { kind: "end", messages: [] }),
      }),
      unread: Buffer.alloc(0),
      group: [],
      inbox: [],
      outbox: [],
      statements: new Map(),
      listensTo: new Set(),
      listening: [],
      hasBegun: false,
      hasEnded: false,
      quiet: 0,
    };
    this.sessions.add(session);
    return session.socket;
  }

  /** A session is in the middle of a transaction, or of a statement. */
  get isHeld(): boolean {
    return this.holder !== undefined;
  }

  /** A statement of the simulation itself, outside simulated time. Throws while the backend is held. */
  query<Row>(statement: string, parameters: unknown[] = []): Promise<Row[]> {
    if (this.holder) throw new Error(`The backend belongs to a session of ${this.holder.owner}.`);
    return this.alone(async () => (await this.pg.query<Row>(statement, parameters)).rows);
  }

  /** All sessions of a node end. What is on its way in either direction is lost. */
  cutAll(owner: string): void {
    for (const session of [...this.sessions]) if (session.owner === owner) this.lose(session);
    this.serve();
  }

  /** Until `thaw` nothing reaches the node, and nothing that it writes reaches the server. */
  freeze(owner: string): void {
    this.frozen.add(owner);
  }

  thaw(owner: string): void {
    this.frozen.delete(owner);
    for (const session of [...this.sessions]) {
      this.takeIn(session);
      this.handOut(session);
    }
    this.serve();
  }

  /** Taken at any time: what is not committed is rolled back when it returns. */
  snapshot(): Promise<Snapshot> {
    return this.alone(() => (this.image = imageOf(this.wasm, this.image)));
  }

  /** The database returns to a snapshot, and all sessions are cut. */
  restore(snapshot: Snapshot): Promise<void> {
    return this.alone(() => {
      this.holder = undefined;
      for (const session of [...this.sessions]) this.lose(session);
      this.putBack(snapshot);
    });
  }

  /** Begins the story of another seed from a snapshot, as if nothing had happened since. Nothing of the last story may still run. */
  restart(snapshot: Snapshot, time: StoreTime): Promise<void> {
    return this.alone(() => {
      this.forgetAll();
      this.frozen.clear();
      this.lastPid = 0;
      this.fate = () => ({ latencyMs: 0, answerMs: 0 });
      this.time = time;
      this.entropy.random = () => time.random();
      this.putBack(snapshot);
    });
  }

  async close(): Promise<void> {
    this.forgetAll();
    await this.alone(() => this.pg.close());
  }

  /** While it runs, no session has the backend. */
  private async alone<T>(work: () => T | Promise<T>): Promise<T> {
    this.inside += 1;
    const result = this.working.then(work);
    this.working = result.catch(() => {});
    try {
      return await result;
    } finally {
      this.inside -= 1;
      this.serve();
    }
  }

  private receive(session: Session, bytes: Buffer): void {
    session.unread = session.unread.length === 0 ? bytes : Buffer.concat([session.unread, bytes]);
    for (;;) {
      // The first message of a session has no type.
      const typed = session.hasBegun ? 1 : 0;
      if (session.unread.length < typed + 4) return;
      const length = typed + session.unread.readUInt32BE(typed);
      if (session.unread.length < length) return;
      const next = session.unread.subarray(0, length);
      session.unread = session.unread.subarray(length);
      if (typed === 0) this.begin(session, next);
      else this.collect(session, next);
    }
  }

  private begin(session: Session, first: Buffer): void {
    const code = first.readUInt32BE(4);
    // Nothing runs for long here: a cancel finds it done.
    if (code === CANCEL_REQUEST) return this.arrive(session, { kind: "end", messages: [] });
    if (ENCRYPTION_REQUESTS.includes(code))
      return this.arrive(session, { kind: "greeting", messages: [Buffer.from("N")] });
    session.hasBegun = true;
    this.arrive(session, { kind: "greeting", messages: greetingOf(session.pid) });
  }

  private collect(session: Session, next: Buffer): void {
    session.group.push(next);
    const type = typeOf(next);
    if (!ENDS_GROUP.includes(type)) return;
    const messages = session.group;
    session.group = [];
    this.arrive(session, { kind: type === "X" ? "end" : "messages", messages });
  }

  private arrive(session: Session, work: Pick<Group, "kind" | "messages">): void {
    if (session.hasEnded) return;
    const group: Group = { session, ...work, fate: this.fate(session.owner), hasArrived: false };
    session.inbox.push(group);
    this.time.later(group.fate.latencyMs, () => {
      group.hasArrived = true;
      this.takeIn(session);
      this.serve();
    });
  }

  private takeIn(session: Session): void {
    while (!this.frozen.has(session.owner) && session.inbox[0]?.hasArrived) {
      const group = session.inbox.shift() as Group;
      // The greeting needs no backend.
      if (group.kind === "greeting") this.process(group);
      else this.waiting.push(group);
    }
  }

  /** The groups that can have the backend now, in order. */
  private serve(): void {
    if (this.isServing) return;
    this.isServing = true;
    try {
      while (!this.isBusy) {
        if (!this.holder) this.tidy();
        const at = this.holder ? this.waiting.findIndex(({ session }) => session === this.holder) : 0;
        const group = at < 0 ? undefined : this.waiting[at];
        if (!group) break;
        this.waiting.splice(at, 1);
        this.process(group);
      }
    } finally {
      this.isServing = false;
    }
  }

  private process({ session, kind, messages, fate }: Group): void {
    if (fate.cut === "before") return this.end(session, fate.answerMs, connectionReset());
    if (kind === "end") return this.end(session, fate.answerMs);
    if (kind === "greeting" && fate.refused?.what === "sessions") return this.turnAway(session, fate);
    const output = kind === "greeting" ? undefined : this.execute(session, refusedOf(session, messages, fate.refused));
    if (fate.cut === "after") this.end(session, fate.answerMs, connectionReset());
    else this.send(session, { bytes: output?.answer ?? Buffer.concat(messages) }, fate.answerMs);
    for (const notification of output?.notifications ?? []) {
      notification.writeInt32BE(session.pid, 5);
      this.notify(textAt(notification, 9), notification);
    }
  }

  private turnAway(session: Session, { answerMs, refused }: SessionFate): void {
    const { sqlState = "", message: why = "" } = refused ?? {};
    this.send(session, { bytes: fatal(sqlState, why) }, answerMs);
    this.end(session, answerMs);
  }

  private execute(session: Session, messages: readonly Buffer[]): Output {
    for (const sent of messages) note(session, sent);
    const output = this.run(...messages);
    if (output.isUndone) session.listening = [];
    const isDone = output.status === "I";
    if (isDone) this.settleListens(session);
    this.holder = isDone ? undefined : session;
    if (!isDone) this.watch(session);
    return output;
  }

  /** A session that has the backend and falls silent would stop all others. */
  private watch(session: Session): void {
    const quiet = ++session.quiet;
    this.time.later(IDLE_IN_TRANSACTION_MS, () => {
      if (this.holder !== session || session.quiet !== quiet) return;
      const { answerMs } = this.fate(session.owner);
      this.send(session, { bytes: fatal("25P03", "idle-in-transaction timeout") }, answerMs);
      this.end(session, answerMs);
      this.serve();
    });
  }

  private run(...messages: readonly Buffer[]): Output {
    const output: Buffer[] = [];
    const onRawData = (bytes: Uint8Array) => void output.push(Buffer.from(bytes));
    // It has ended when the call returns. The other calls for raw messages keep all results until the next statement of `query`.
    void this.pg.execProtocolRawStream(Buffer.concat(messages), { syncToFs: false, onRawData });
    return readOutput(Buffer.concat(output));
  }

  private settleListens(session: Session): void {
    for (const { stops, channel } of session.listening) {
      if (!stops) session.listensTo.add(channel);
      else if (channel === "*") session.listensTo.clear();
      else session.listensTo.delete(channel);
      this.listensAgain ||= stops;
    }
    session.listening = [];
  }

  /** What sessions leave behind in the backend that all of them share. */
  private tidy(): void {
    const closes = this.unclosed.map((name) => message("C", Buffer.from("S"), text(name)));
    this.unclosed = [];
    if (closes.length > 0) this.run(...closes, SYNC);
    if (!this.listensAgain) return;
    // One session has stopped to listen, and with it the backend.
    this.listensAgain = false;
    const channels = new Set([...this.sessions].flatMap(({ listensTo }) => [...listensTo]));
    const listens = [...channels].map((channel) => `listen "${channel.replaceAll('"', '""')}"`);
    if (listens.length > 0) this.run(message("Q", text(listens.join(";"))));
  }

  private notify(channel: string, notification: Buffer): void {
    for (const session of [...this.sessions]) {
      if (!session.listensTo.has(channel)) continue;
      const { answerMs, cut } = this.fate(session.owner);
      if (cut) this.end(session, answerMs, connectionReset());
      else this.send(session, { bytes: notification }, answerMs);
    }
  }

  private send(session: Session, sent: Omit<Letter, "hasArrived">, ms: number): void {
    const letter: Letter = { ...sent, hasArrived: false };
    session.outbox.push(letter);
    this.time.later(ms, () => {
      letter.hasArrived = true;
      this.handOut(session);
    });
  }

  private handOut(session: Session): void {
    while (!this.frozen.has(session.owner) && session.outbox[0]?.hasArrived) {
      const { bytes, error } = session.outbox.shift() as Letter;
      if (bytes && !session.socket.destroyed) session.socket.push(bytes);
      if (bytes) continue;
      this.sessions.delete(session);
      session.socket.destroy(error);
    }
  }

  /** The server's end of a session is gone at once; its node learns of it after `ms` and after what is on its way. */
  private end(session: Session, ms: number, error?: Error): void {
    if (session.hasEnded) return;
    session.hasEnded = true;
    session.inbox = [];
    this.waiting = this.waiting.filter((group) => group.session !== session);
    this.unclosed.push(...[...session.statements.keys()].filter((name) => name !== ""));
    session.listensTo.clear();
    if (this.holder === session) this.rollBack();
    this.send(session, error ? { error } : {}, ms);
  }

  /** As `end`, and what is on its way is lost. */
  private lose(session: Session): void {
    if (session.hasEnded) return;
    session.outbox = [];
    this.end(session, 0, connectionReset());
  }

  private forgetAll(): void {
    this.holder = undefined;
    for (const session of this.sessions) {
      Object.assign(session, { hasEnded: true, inbox: [], outbox: [] });
      session.socket.destroy();
    }
    this.sessions.clear();
    this.waiting.splice(0);
    this.unclosed = [];
    this.listensAgain = false;
  }

  /**
   * Before a Sync, ROLLBACK undoes what a Sync would commit. After an error before a Sync it is skipped, and the Sync leaves a transaction that
   * has failed. Outside a transaction it does nothing.
   */
  private rollBack(): void {
    this.run(ROLLBACK, SYNC, ROLLBACK);
    this.holder = undefined;
  }

  private putBack(snapshot: Snapshot): void {
    returnTo(this.wasm, snapshot);
    this.waiting = [];
    this.unclosed = [];
    this.listensAgain = false;
    this.rollBack();
    this.run(message("Q", text("deallocate all; unlisten *")));
  }
}

/** The driver's end of a session. Beside a Duplex it has what the driver asks of a socket of Node. */
class ClientSocket extends Duplex {
  constructor(private readonly server: { received(bytes: Buffer): void; closed(): void }) {
    super({ emitClose: false, autoDestroy: false });
    // The driver listens a little later, and no longer once it has seen the end.
    this.on("error", () => {});
  }

  get readyState(): string {
    if (this.destroyed) return "closed";
    return this.writableEnded ? "readOnly" : "open";
  }

  override _read(): void {}

  override _write(bytes: Buffer, _encoding: string, done: () => void): void {
    this.server.received(bytes);
    done();
  }

  override _final(done: () => void): void {
    this.server.closed();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.server.closed();
    done(error);
    // A socket of Node says whether an error closed it, and the driver counts on that; a stream does not say it.
    process.nextTick(() => this.emit("close", error !== null));
  }
}

/** A file system in memory whose source of random numbers is the simulation's: Postgres reads /dev/urandom. */
class Entropy extends MemoryFS {
  private last = 0;
  /** While the database is made: the same for all seeds. Postgres would try the same name again and again if the numbers did not change. */
  random = () => (this.last = (this.last + 0.6180339887) % 1);

  override async init(...[pg, options]: Parameters<MemoryFS["init"]>): ReturnType<MemoryFS["init"]> {
    const { emscriptenOpts } = await super.init(pg, options);
    const seeded = (module: unknown) => {
      const { FS } = module as Wasm;
      FS.unlink("/dev/urandom");
      FS.createDevice("/dev", "urandom", () => Math.floor(this.random() * 256));
    };
    return { emscriptenOpts: { ...emscriptenOpts, preRun: [...(emscriptenOpts.preRun ?? []), seeded] } };
  }
}

interface Output {
  /** Without the notifications: they go to the sessions that listen. */
  readonly answer: Buffer;
  readonly notifications: readonly Buffer[];
  /** Of the last ReadyForQuery: "I", "T" or "E". */
  readonly status: string | undefined;
  /** Something failed or was rolled back. */
  readonly isUndone: boolean;
}

function readOutput(output: Buffer): Output {
  const kept: Buffer[] = [];
  const notifications: Buffer[] = [];
  let status: string | undefined;
  let isUndone = false;
  for (let at = 0; at < output.length; ) {
    const next = output.subarray(at, at + 1 + output.readUInt32BE(at + 1));
    at += next.length;
    const type = typeOf(next);
    if (type === "A") notifications.push(next);
    else kept.push(next);
    if (type === "Z") status = String.fromCharCode(next[5] as number);
    isUndone ||= type === "E" || (type === "C" && textAt(next, 5) === "ROLLBACK");
  }
  return { answer: notifications.length === 0 ? output : Buffer.concat(kept), notifications, status, isUndone };
}

/** What a message that a session sends changes in what is known about the session. */
function note(session: Session, sent: Buffer): void {
  const { statements, listening } = session;
  const type = typeOf(sent);
  const [first, second] = [textAt(sent, 5), () => textAt(sent, sent.indexOf(0, 5) + 1)];
  if (type === "P") statements.set(first, { listens: listensIn(second()), writes: WRITES.test(second()) });
  // The name of the statement follows the name of the portal.
  if (type === "B") listening.push(...(statements.get(second())?.listens ?? []));
  if (type === "C" && first.startsWith("S")) statements.delete(first.slice(1));
  if (type === "Q") listening.push(...listensIn(first));
}

/** Instead of its writes a refused group has a statement that fails as they would; what it prepares is prepared. */
function refusedOf({ statements }: Session, messages: readonly Buffer[], refused?: Refusal): readonly Buffer[] {
  if (refused?.what !== "writes") return messages;
  const prepared = new Map(statements);
  const isWrite = (sent: Buffer) => {
    const [first, second] = [textAt(sent, 5), () => textAt(sent, sent.indexOf(0, 5) + 1)];
    if (typeOf(sent) === "P") prepared.set(first, { listens: [], writes: WRITES.test(second()) });
    return typeOf(sent) === "B" ? prepared.get(second())?.writes === true : typeOf(sent) === "Q" && WRITES.test(first);
  };
  if (!messages.some(isWrite)) return messages;
  const { sqlState, message: why } = refused;
  const raise = `do $$ begin raise exception using errcode = '${sqlState}', message = '${why}'; end $$`;
  const isPrepared = (sent: Buffer) =>
    "PC".includes(typeOf(sent)) || (typeOf(sent) === "D" && textAt(sent, 5).startsWith("S"));
  return [...messages.filter(isPrepared), message("Q", text(raise))];
}

function listensIn(statement: string): readonly Listen[] {
  return [...statement.matchAll(LISTENS)].map(([, stops, name = ""]) => ({
    stops: stops !== undefined,
    channel: name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name.toLowerCase(),
  }));
}

function greetingOf(pid: number): Buffer[] {
  const parameters = Object.entries(PARAMETERS).map(([name, value]) => message("S", text(name), text(value)));
  return [message("R", int32(0)), ...parameters, message("K", int32(pid), int32(pid)), message("Z", Buffer.from("I"))];
}

const connectionReset = () =>
  Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET", errno: -104, syscall: "read" });

function message(type: string, ...parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from(type), int32(body.length + 4), body]);
}

const fatal = (sqlState: string, why: string) =>
  message("E", ...["SFATAL", "VFATAL", `C${sqlState}`, `M${why}`, ""].map(text));

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

const text = (value: string) => Buffer.from(`${value}\0`);
const typeOf = (sent: Buffer) => String.fromCharCode(sent[0] as number);
const textAt = (sent: Buffer, at: number) => sent.toString("utf8", at, sent.indexOf(0, at));

const SYNC = message("S");
const ROLLBACK = message("Q", text("rollback"));
