// Faults that only a whole cluster meets, planted one after the other in a copy of the tree: the simulation has to find each. `node
// test/simulation/planted.mjs [words of a name]` prints how many seeds it needed.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { MUTANTS } from "../mutations/mutants.mjs";

/** Those that a test of their own finds, too. */
const OF_ALL = [
  "a cancel of a paused run leaves its children paused",
  "what a worker names, and no run waits for, takes no credit",
  "a bulk job counts a cancel that changes nothing as its own",
];

export const PLANTED = [
  {
    name: "a commit of unknown outcome counts as won",
    file: "src/run/committer.ts",
    find: 'for (const { reject } of group) reject(new OutcomeUnknown("the commit was not answered", { cause }));',
    replace: "for (const { resolve } of group) resolve(true);",
  },
  {
    name: "a commit is acknowledged before it is made",
    file: "src/run/committer.ts",
    find: "const won = await retryTransient",
    replace: "for (const { resolve } of group) resolve(true);\n      const won = await retryTransient",
  },
  {
    name: "a node that helps itself has an id of its own for the command",
    file: "src/run/router.ts",
    find: "const answer = await runtime.command(runId, command, delivered);",
    replace: "const answer = await runtime.command(runId, command, { ...delivered, id: undefined });",
  },
  {
    name: "a replay does not ask for the recorded answer",
    file: "src/run/resident.ts",
    find: "(nth === 0 ? undefined : await this.recordedAnswer(queued)) ??",
    replace: "",
  },
  {
    name: "a loser removes the inbox row of its command",
    file: "src/store/engine/commit/clauses.ts",
    find: 'where ${keyed("inbox.id", "inbox_gone.id")} and ${won("inbox_gone.run_id")}',
    replace: 'where ${keyed("inbox.id", "inbox_gone.id")}',
  },
  {
    name: "a wake is due a day late",
    file: "src/store/engine/commit/clauses.ts",
    find: "select wake.run_id, wake.shard, wake.due_at from",
    replace: "select wake.run_id, wake.shard, wake.due_at + interval '1 day' from",
  },
  {
    name: "the undo list of a child stays with it",
    file: "src/store/engine/commit/clauses.ts",
    find: "and undo.state = 'owed' and ${won(\"undo_handed.run_id\")}",
    replace: "and undo.state = 'gone' and ${won(\"undo_handed.run_id\")}",
  },
  {
    name: "a slot is kept by a run that has ended",
    file: "src/store/engine/commit/clauses.ts",
    find: "and concurrency_tickets.entry = ticket_gone.entry",
    replace: "and false",
  },
  {
    name: "rows that are due are not polled",
    file: "src/cluster/core.ts",
    find: "    this.poller.start();",
    replace: "",
  },
  {
    name: "an answer is said to be durable before it is",
    file: "src/dispatch/grpc/recorder.ts",
    find: "      const { id, at: arrivedAt } = arrival;",
    replace:
      "      const { id, at: arrivedAt } = arrival;\n      stream.write({ recorded: { dispatch_id: dispatchId, stale: false } });",
  },
  {
    name: "credit is given back while the worker may still execute the step",
    file: "src/dispatch/grpc/in-flight.ts",
    find: "if (dispatch && !this.isExpired(dispatch)) this.holdCredit(stream, id, dispatch.deadlineAt);\n    else this",
    replace: "this",
  },
  {
    name: "the answer of a command that changes nothing is not recorded",
    file: "machines/writes/unit.ts",
    find: "const isRecorded = id !== undefined && !leavesNothing;",
    replace: "const isRecorded = false;",
  },
  {
    name: "a start is not found again by its key",
    file: "src/run/starter.ts",
    find: "if (row.request_hash === hash) return repeatedStart(row, row.id !== runId || request.runId !== undefined);",
    replace: "if (row.request_hash === hash) return undefined;",
  },
  {
    name: "a child's end is not owed to its parent",
    file: "src/store/engine/commit/clauses.ts",
    find: 'from ${from.inbox_row} where ${won("inbox_row.from_run")}',
    replace: "from ${from.inbox_row} where false",
  },
  {
    name: "an undo is settled twice over: the entry stays owed",
    file: "src/store/engine/commit/clauses.ts",
    find: "update undo set state = undo_settled.state from",
    replace: "update undo set state = 'owed' from",
  },
  {
    name: "a command of unknown outcome is not replayed",
    file: "src/run/resident.ts",
    find: "outcomeUnknown ||= error instanceof OutcomeUnknown;",
    replace: 'if (error instanceof OutcomeUnknown) return { type: "advanced" };',
  },
  {
    name: "credit whose dispatch is over is kept, if the node was not told",
    file: "src/dispatch/grpc/in-flight.ts",
    find: "if (dispatch && dispatch.deadlineAt < overdue) this.resolve(id);",
    replace: "if (dispatch && dispatch.deadlineAt < 0) this.resolve(id);",
  },
  {
    name: "what a worker has accepted is remembered for good, if the node was not told of its end",
    file: "src/dispatch/push/accepted.ts",
    find: "if (deadlineAt < overdue) this.forget(dispatchId);",
    replace: "if (deadlineAt < 0) this.forget(dispatchId);",
  },
  {
    name: "a call whose connection broke counts as one that was not handed over",
    file: "src/dispatch/http/outlet.ts",
    find: "if (!sent) return",
    replace: 'if (!sent || kind === "network") return',
  },
  {
    name: "a webhook is delivered, whatever its receiver says",
    file: "src/dispatch/webhook/courier.ts",
    find: "if (status < 300) return { delivered: true };",
    replace: "if (status < 600) return { delivered: true };",
  },
  {
    name: "an event is published before the broker has confirmed it",
    file: "src/events/event-publisher.ts",
    find: 'return outcome === "confirmed";',
    replace: "return true;",
  },
  {
    name: "a commit asks for the revision alone, and not for the history that it belongs to",
    file: "src/store/engine/commit/plain.ts",
    find: "and runs.fence = run_update.expected_fence and coalesce",
    replace: "and coalesce",
    also: [
      {
        file: "src/store/engine/commit/general.ts",
        find: "where locked.revision = run_update.expected and locked.fence = run_update.expected_fence",
        replace: "where locked.revision = run_update.expected",
      },
    ],
  },
  {
    name: "a node trusts the clock of its host",
    file: "src/clock.ts",
    find: "this.last = Math.max(this.last, Math.floor(this.monotonic() + this.offset));",
    replace: "this.last = Date.now();",
  },
  {
    name: "an act of a bulk job that is repeated is another command",
    file: "src/operate/target-act.ts",
    find: "derivedUuid(`bulk/${jobId}/${runId}`, shardOf(runId))",
    replace: "derivedUuid(`bulk/${jobId}/${runId}/${Math.random()}`, shardOf(runId))",
  },
  {
    name: "what a run owes is kept in memory alone",
    file: "src/store/engine/commit/clauses.ts",
    find: 'from ${from.outbox_row} where ${won("outbox_row.run_id")}',
    replace: "from ${from.outbox_row} where false",
  },
  {
    name: "a watcher takes an event that is not the next one",
    file: "src/feed/watcher.ts",
    find: "if (!this.reading && event.seq === this.position + 1) this.deliver(event);",
    replace: "if (!this.reading && event.seq > this.position) this.deliver(event);",
  },
  {
    name: "a slot that came free is not given, if its node died of it",
    file: "src/concurrency/slot-granter.ts",
    find: "for (const { due, ...key } of keys) if (due) this.touch({ key, asked: true });",
    replace: "",
  },
  {
    name: "an event is announced by the node that published it, or never",
    file: "src/events/announcer.ts",
    find: "const due = await leaseDueEvents(sql, BATCH);",
    replace: "const due: DueEvent[] = [];",
  },
  {
    name: "a fire is carried out by the node that decided it, or never",
    file: "src/trigger/triggered-starts.ts",
    find: "const owed = await leaseFires(this.options.sql, BATCH);",
    replace: "const owed: OwedFire[] = [];",
  },
  {
    name: "a fire that is carried out again starts another run",
    file: "src/trigger/triggered-starts.ts",
    find: "inputs, tenantId, runId: fireRunId(id) },",
    replace: "inputs, tenantId, runId: asRunId(derivedUuid(`${id}/${Math.random()}`)) },",
  },
  {
    name: "a signal with a start is not owed by its commit",
    file: "src/run/starter.ts",
    find: "...(signal ? [{ id: signal.id, to: run.id, command: signal }] : [])",
    replace: "",
  },
  {
    name: "two starts of a business key both win",
    file: "src/store/engine/commit/general.ts",
    find: " and new_run.id not in (select run_id from key_lost)",
    replace: "",
  },
  ...MUTANTS.filter(({ name }) => OF_ALL.includes(name)),
];

const SEEDS = 10;
const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");

function main() {
  const words = process.argv.slice(2);
  const copy = mkdtempSync(join(tmpdir(), "saga-planted-"));
  try {
    const files = execFileSync("git", ["ls-files", "-z"], { cwd: ROOT, encoding: "utf8" }).split("\0").filter(Boolean);
    for (const file of files) cpSync(join(ROOT, file), join(copy, file));
    symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
    const [part, parts] = (process.env.SAGA_PLANTED ?? "1/1").split("/").map(Number);
    const chosen = PLANTED.filter(({ name }) => words.every((word) => name.includes(word)));
    for (const planted of chosen.filter((_, nth) => nth % parts === part - 1)) plant(copy, planted);
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

function plant(copy, { name, also = [], ...first }) {
  const originals = [first, ...also].map(({ file, find, replace }) => {
    const path = join(copy, file);
    const original = readFileSync(path, "utf8");
    if (original.split(find).length !== 2) throw new Error(`${name}: ${file} does not have the text once`);
    writeFileSync(path, original.split(find).join(replace));
    return { path, original };
  });
  execFileSync("node", ["esbuild.config.mjs"], { cwd: copy, stdio: "inherit" });
  const program = join(copy, "dist", "test", "simulation", "main.js");
  const { status, stdout } = spawnSync("node", [program, "--hours", "1", "--seeds", String(SEEDS), "--storm", "30"], {
    cwd: copy,
    encoding: "utf8",
  });
  for (const { path, original } of originals) writeFileSync(path, original);
  const [, stories] = /stories: (\d+)/.exec(stdout) ?? [];
  const [law] = stdout.split("\n").filter((line) => !/^[\d.]+ s: /.test(line));
  const found = status === 0 ? "NOT FOUND" : `found by story ${stories}`;
  console.log(`${found}: ${name}${status === 0 ? "" : `\n    ${law?.slice(0, 200)}`}`);
  if (status === 0) process.exitCode = 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main();
