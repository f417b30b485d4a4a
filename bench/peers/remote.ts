// The HTTP server that executes the remote steps of the peers, the counterpart of our worker: it answers its input at once, and counts.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const calls: Record<string, number> = {};

const server = createServer((request, response) => {
  const action = (request.url ?? "").slice(1);
  calls[action] = (calls[action] ?? 0) + 1;
  let body = "";
  request.setEncoding("utf8");
  request.on("data", (chunk) => {
    body += chunk;
  });
  request.on("end", () => {
    response.writeHead(action === "refuse" ? 422 : 200, { "content-type": "application/json" });
    response.end(action === "refuse" ? '"refused for good"' : body);
  });
});
// Longer than any pause of the load: a connection that is closed while a request is sent would look like a failure.
server.keepAliveTimeout = 120_000;
server.listen(0, "127.0.0.1", () => {
  console.log(JSON.stringify({ msg: "ready", http: (server.address() as AddressInfo).port }));
});
process.once("SIGTERM", () => {
  console.log(JSON.stringify({ calls }));
  process.exit();
});
