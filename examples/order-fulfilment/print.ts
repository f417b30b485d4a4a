// Prints the progress line and, at the end, the books. It prints what it receives and computes no verdict.
import { type Audit, cents } from "./audit.js";
import { ended, type Progress } from "./batch.js";
import { SCENARIO_NAMES, SCENARIOS } from "./scenarios.js";

/** Prints the progress every second: one changing line on a terminal, otherwise a new line each time. Returns the function that stops it. */
export function showProgress(progress: Progress): () => void {
  const begun = performance.now();
  const terminal = process.stdout.isTTY;
  const print = () => {
    const line = progressLine(progress, Math.round((performance.now() - begun) / 1_000));
    process.stdout.write(terminal ? `\r\x1b[K${line.slice(0, process.stdout.columns - 1)}` : `${line}\n`);
  };
  const timer = setInterval(print, 1_000);
  return () => {
    clearInterval(timer);
    print();
    if (terminal) process.stdout.write("\n");
  };
}

function progressLine(progress: Progress, seconds: number): string {
  const { states, orders, started, kills } = progress;
  const parts = [
    `${String(seconds).padStart(4)} s  ${started}/${orders} orders in`,
    `${states.pending + states.running} working`,
    `${states.paused} waiting`,
    `${states.compensating} undoing`,
    `${states.succeeded} fulfilled`,
    `${states.failed + states.cancelled} undone`,
  ];
  const killed = kills.map(({ what, planned, done }) => `${what} killed ${done} of ${planned}`);
  return [...parts, ...killed].join("  ");
}

export function printBooks(audit: Audit): void {
  console.log("\nThe books by scenario:\n");
  console.log(row("scenario", "orders", "fulfilled", "undone", "description"));
  for (const name of SCENARIO_NAMES) {
    const outcomes = [...audit.orders.values()].filter(({ scenario }) => scenario === name);
    if (outcomes.length === 0) continue;
    const count = (outcome: string) => String(outcomes.filter((order) => order.outcome === outcome).length);
    console.log(row(name, String(outcomes.length), count("fulfilled"), count("undone"), SCENARIOS[name].says));
  }
  const { money, stock, turnedAway } = audit;
  console.log("\nTotals:\n");
  console.log(`  money  charged ${cents(money.chargedCents)} - refunded ${cents(money.refundedCents)}`);
  console.log(`         = ${cents(money.tillCents)} in the till; the fulfilled orders cost ${cents(money.owedCents)}`);
  console.log(`  stock  ${stock.initial} pieces - reserved ${stock.reserved} + released ${stock.released}`);
  console.log(`         = ${stock.onHand} on hand; ${stock.sold} were sold`);
  if (turnedAway > 0) console.log(`  late   ${turnedAway} effect(s) arrived after their undo and were refused`);
}

function row(name: string, orders: string, fulfilled: string, undone: string, says: string): string {
  return `  ${name.padEnd(20)}${orders.padStart(7)}${fulfilled.padStart(11)}${undone.padStart(8)}   ${says}`;
}

const MOST_VIOLATIONS = 50;

export function printVerdict(audit: Audit, violations: readonly string[], progress: Progress): void {
  const count = (outcome: string) => [...audit.orders.values()].filter((order) => order.outcome === outcome).length;
  const survived = progress.kills.map(({ what, done }) => `the ${what} was killed ${done} time(s)`);
  if (survived.length > 0) console.log(`\n  Meanwhile ${survived.join(", and ")}, each time with SIGKILL.`);
  if (violations.length === 0) {
    console.log(
      `\nThe books balance: ${ended(progress)} orders, ${count("fulfilled")} fulfilled, ${count("undone")} completely undone, no effect made twice.`,
    );
    return;
  }
  console.log(`\nThe books do NOT balance: ${violations.length} violation(s).`);
  for (const violation of violations.slice(0, MOST_VIOLATIONS)) console.log(`  - ${violation}`);
  if (violations.length > MOST_VIOLATIONS) console.log(`  ... and ${violations.length - MOST_VIOLATIONS} more`);
}
