// The client of the load, the same for all systems: JSON over connections that are kept open.
import { Agent, request } from "node:http";
import { setTimeout as delay } from "node:timers/promises";

export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

/** An answer of 503 is asked for again: all of these systems shed load. */
const RETRY_MS = 1_000;

const agent = new Agent({ keepAlive: true, maxSockets: 512 });

/** The answer, whatever its status. Rejects only if there is none. */
export async function send(method: "GET" | "POST", url: string, body?: unknown): Promise<Answer> {
  for (;;) {
    const answer = await once(method, url, body === undefined ? "" : JSON.stringify(body));
    if (answer.status !== 503) return answer;
    await delay(RETRY_MS);
  }
}

/** The body of a good answer. */
export async function ask<T>(method: "GET" | "POST", url: string, body?: unknown): Promise<T> {
  const answer = await send(method, url, body);
  if (answer.status >= 400) throw new Error(`${method} ${url}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body as T;
}

function once(method: string, url: string, text: string): Promise<Answer> {
  const content = { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
  const headers = { accept: "application/json", ...(text && content) };
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, agent, headers }, (response) => {
      let answer = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => {
        answer += chunk;
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body: parsed(answer) }));
    });
    sent.on("error", reject);
    sent.end(text);
  });
}

/** Some errors are plain text. */
function parsed(text: string): unknown {
  try {
    return text === "" ? undefined : JSON.parse(text);
  } catch {
    return text;
  }
}
