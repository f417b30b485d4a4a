// Preloaded into a service (NODE_OPTIONS=--import): measures the processor time of its thread between two turns of its event loop, on
// request, and how long parsing 2 MB of JSON takes there. It spins the loop while it measures.
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

const folder = process.env.TEST_LOOP_MONITOR;

/** In milliseconds, of the main thread alone. */
const computed = () => Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, "latin1").split(" ")[0]) / 1e6;

let measuring = false;
let longest = 0;
let before = 0;

function turn() {
  if (!measuring) return;
  const now = computed();
  longest = Math.max(longest, now - before);
  before = now;
  setImmediate(turn);
}

function begin() {
  [measuring, longest, before] = [true, 0, computed()];
  setImmediate(turn);
}

function parsing() {
  const item = (id) => ({ id, name: `name ${id}`, tags: ["a", "b"], at: "2026-01-01T00:00:00Z", x: id / 8 });
  const text = JSON.stringify(Array.from({ length: 25_500 }, (_, nth) => item(nth)));
  const times = Array.from({ length: 5 }, () => {
    const began = computed();
    JSON.parse(text);
    return computed() - began;
  });
  return { chars: text.length, ms: times.sort((left, right) => left - right)[2] };
}

if (folder !== undefined) {
  const server = createServer((request, response) => {
    if (request.url === "/begin") return response.end(begin());
    measuring = false;
    response.end(JSON.stringify({ longest, parsing: parsing() }));
  });
  server.listen(0, "127.0.0.1", () =>
    writeFileSync(join(folder, `${process.pid}.port`), String(server.address().port)),
  );
  server.unref();
}
