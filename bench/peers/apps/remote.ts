// Calls of the HTTP server that executes the remote steps of the peers, over connections that are kept open. A refusal is an error
// of its own class: each system stops trying for its own reason.
import { Agent, request } from "node:http";

export class Refused extends Error {}

const base = process.env.REMOTE_URL ?? "";
const agent = new Agent({ keepAlive: true, maxSockets: 256 });

/** The answer's body. Throws `Refused` if the action fails for good, another error if it did not answer. */
export function call(action: string, input: object): Promise<unknown> {
  const text = JSON.stringify(input);
  const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
  return new Promise((resolve, reject) => {
    const sent = request(`${base}/${action}`, { method: "POST", agent, headers }, (response) => {
      let answer = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => {
        answer += chunk;
      });
      response.on("end", () =>
        response.statusCode === 200 ? resolve(JSON.parse(answer)) : reject(new Refused(`${action}: ${answer}`)),
      );
    });
    sent.on("error", reject);
    sent.end(text);
  });
}
