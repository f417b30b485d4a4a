// A foreach of 1,000 and of 10,000 items on the real service: time, rows, WAL and memory. The numbers are those of this machine in
// this run; the ratio shows whether anything grows faster than the number of items.
import { ended, freshDatabase, post, startService } from "./service.js";

const AT_ONCE = Number(process.env.AT_ONCE ?? 100);

const EACH = {
  id: "each",
  name: "One step for each item",
  start: "each",
  published: true,
  steps: [
    { id: "each", type: "foreach", items: "inputs.items", body: "item", max_concurrency: AT_ONCE },
    { id: "item", type: "transform", expression: "item * 2" },
  ],
};

interface Figures {
  readonly seconds: number;
  readonly rows: number;
  readonly walBytes: number;
  readonly rssBytes: number;
}

/** `variables`: kilobytes of variables that every item sees and none reads. */
async function measure(items: number, variables = 0): Promise<Figures> {
  const database = await freshDatabase();
  const service = await startService(database.url, { LOG_LEVEL: "info" });
  const { sql } = database;
  try {
    await post(`${service.base}/api/v1/workflows`, EACH);
    const [before] = await sql<{ lsn: string }[]>`select pg_current_wal_lsn()::text as lsn`;
    const begun = performance.now();
    await post(`${service.base}/api/v1/sagas/start`, {
      workflow_id: "each",
      inputs: { items: Array.from({ length: items }, (_, index) => index) },
      variables: { records: records(variables) },
    });
    await ended(sql, "each", items + 1);
    const seconds = (performance.now() - begun) / 1000;
    const [written] = await sql<{ wal: string; rows: string; states: string[] }[]>`
      select pg_wal_lsn_diff(pg_current_wal_lsn(), ${before?.lsn ?? ""}::pg_lsn)::text as wal,
        ((select count(*) from runs) + (select count(*) from run_events) + (select count(*) from run_variables)
          + (select count(*) from run_starts) + (select count(*) from run_commands))::text as rows,
        (select array_agg(distinct state) from runs) as states`;
    if (written?.states.join() !== "succeeded") throw new Error(`runs ended as ${written?.states}`);
    return {
      seconds,
      rows: Number(written.rows),
      walBytes: Number(written.wal),
      rssBytes: await memoryOf(service.base),
    };
  } finally {
    await service.stop();
    await database.drop();
  }
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(2);
}

/** JSON as applications have it: about a kilobyte for every ten records. */
function records(kilobytes: number): unknown[] {
  const random = () => Math.random().toString(36).slice(2, 8);
  return Array.from({ length: kilobytes * 10 }, (_, nth) => ({
    ...{ order_id: `order-${nth}-${random()}`, status: "confirmed", currency: "EUR" },
    ...{ amount: nth * 7, customer: random() },
  }));
}

async function memoryOf(base: string): Promise<number> {
  const text = await (await fetch(`${base}/metrics`)).text();
  return Number(/^process_resident_memory_bytes (\S+)/m.exec(text)?.[1] ?? Number.NaN);
}

const [kilobyte, megabyte] = [await measure(1_000, 1), await measure(1_000, 1_000)];
console.log(
  `foreach of 1000 items: ${megabytes(kilobyte.walBytes)} MB of WAL with 1 KB of variables, ${megabytes(megabyte.walBytes)} MB ` +
    `with 1 MB: ${(megabyte.walBytes / kilobyte.walBytes).toFixed(2)} times`,
);
if (process.env.ONLY === "variables") process.exit();

const small = await measure(Number(process.env.SMALL ?? 1_000));
const large = await measure(10_000);
for (const [items, { seconds, rows, walBytes, rssBytes }] of [
  [1_000, small],
  [10_000, large],
] as const)
  console.log(
    `foreach of ${items} items, ${AT_ONCE} at once: ${seconds.toFixed(1)} s, ${(items / seconds).toFixed(0)} items/s, ` +
      `${(rows / items).toFixed(1)} rows and ${(walBytes / items / 1024).toFixed(1)} KB of WAL an item, ` +
      `${(rssBytes / 2 ** 20).toFixed(0)} MB resident`,
  );
console.log(`ten times the items: ${(large.seconds / small.seconds).toFixed(1)} times the time`);
