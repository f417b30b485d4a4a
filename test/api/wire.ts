// Requests as bytes on a socket: what Node's own clients would not send, and answers as they are on the wire.
import { connect, type Socket } from "node:net";
import { documented } from "./documented.js";

export interface WireAnswer {
  readonly status: number;
  /** Names in lower case. Cookies are one a line. */
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of any shape, and fail where they have another.
  readonly json: any;
}

export interface WireRequest {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** One request on a connection of its own. Its `Host` is this machine, unless the headers name another. */
export async function ask(port: number, request: WireRequest | string): Promise<WireAnswer> {
  const [answer] = await askInTurn(port, [request]);
  if (!answer) throw new Error("the connection was closed without an answer");
  return answer;
}

/** Each request is sent when the one before it was answered, all on one connection. */
export async function askInTurn(port: number, requests: readonly (WireRequest | string)[]): Promise<WireAnswer[]> {
  const socket = connect(port, "127.0.0.1");
  const answers: WireAnswer[] = [];
  try {
    for (const request of requests) {
      const bytes = typeof request === "string" ? request : bytesOf(request);
      socket.write(bytes);
      const answer = await nextAnswer(socket);
      checkDocumented(bytes, answer);
      answers.push(answer);
    }
  } finally {
    socket.destroy();
  }
  return answers;
}

function checkDocumented(bytes: string, { status, headers, text, json }: WireAnswer): void {
  const [method = "", path = ""] = bytes.split("\r\n", 1)[0]?.split(" ") ?? [];
  documented().check({ method, path, status, contentType: headers["content-type"], body: json ?? text });
}

export function bytesOf({ method = "GET", path, headers = {}, body }: WireRequest): string {
  const length =
    body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  const lines = Object.entries({ host: "localhost", ...length, ...headers }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  return [`${method} ${path} HTTP/1.1`, ...lines, "", body ?? ""].join("\r\n");
}

function nextAnswer(socket: Socket): Promise<WireAnswer> {
  return new Promise((resolve, reject) => {
    let bytes = Buffer.alloc(0);
    const read = (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      const answer = answerOf(bytes);
      if (!answer) return;
      socket.removeAllListeners();
      resolve(answer);
    };
    socket.on("data", read);
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("the connection was closed without an answer")));
  });
}

/** Undefined: it is not complete yet. Answers of the service have a Content-Length or no body. */
function answerOf(bytes: Buffer): WireAnswer | undefined {
  const end = bytes.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const [first = "", ...lines] = bytes.subarray(0, end).toString("latin1").split("\r\n");
  const pairs = lines.map(headerOf);
  const cookies = pairs.flatMap(([name, value]) => (name === "set-cookie" ? [value] : []));
  const headers = Object.fromEntries([...pairs, ...(cookies.length > 0 ? [["set-cookie", cookies.join("\n")]] : [])]);
  const body = bytes.subarray(end + 4);
  if (body.length < Number(headers["content-length"] ?? 0)) return undefined;
  const text = body.toString();
  const json = headers["content-type"]?.includes("json") && text !== "" ? JSON.parse(text) : undefined;
  return { status: Number(first.split(" ")[1]), headers, text, json };
}

function headerOf(line: string): [string, string] {
  const colon = line.indexOf(":");
  return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
}
