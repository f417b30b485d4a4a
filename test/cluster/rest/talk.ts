// The requests and answers of a scenario, in a comparable form: values that differ each time (ids, times, receipts) are replaced by
// the order of their appearance. Polling requests are not kept.
import { Client as Stream } from "../../api/client.js";
import { type Answer, Client } from "../../faults/client.js";
import type { Place } from "./places.js";

export interface Said {
  readonly asked: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** The headers that are compared. */
const HEADERS = ["content-type", "location", "retry-after", "saga-ignored-fields"];

/** Numbers that differ each time. */
const MEASURED = new Set(["duration_ms", "ordinal", "ms", "heap_mb"]);

export class Talk {
  readonly said: Said[] = [];
  /** Not part of the comparison: to wait for a state, to prepare. */
  readonly aside: Client;
  private readonly names = new Map<string, string>();

  constructor(readonly place: Place) {
    this.aside = new Client(`http://127.0.0.1:${place.httpPort}`);
  }

  async ask(method: "GET" | "POST" | "DELETE", path: string, body?: unknown): Promise<Answer> {
    const answer = await this.aside.send(this.aside.url, method, path, body);
    const headers = HEADERS.flatMap((name) => {
      const value = answer.headers.get(name);
      return value === null ? [] : [[name, this.named(value)] as const];
    });
    const { status } = answer;
    this.keep({ asked: `${method} ${path}`, status, headers: Object.fromEntries(headers), body: answer.body });
    return { status, body: answer.body };
  }

  /** A run of the owner. */
  async start(workflowId: string, more: object = {}): Promise<string> {
    const body = { workflow_id: workflowId, run_id: this.place.newRunId(), ...more };
    return (await this.ask("POST", "/sagas/start", body)).body.run_id;
  }

  /** The live stream of a run until it is closed, whenever its frames arrive. */
  watch(runId: string, query: string, meanwhile: () => Promise<unknown>): Promise<void> {
    return this.receive(runId, `stream${query}`, meanwhile);
  }

  /** The frames of the inspector, likewise. */
  inspect(runId: string, meanwhile: () => Promise<unknown>): Promise<void> {
    return this.receive(runId, "inspect", meanwhile);
  }

  private async receive(runId: string, route: string, meanwhile: () => Promise<unknown>): Promise<void> {
    const stream = new Stream(this.place.httpPort, runId, "", route);
    await stream.has(1);
    await meanwhile();
    const status = (await stream.closed()) as number;
    this.keep({ asked: `GET /sagas/${runId}/${route}`, status, headers: {}, body: stream.frames });
  }

  private keep({ asked, body, ...rest }: Said): void {
    this.said.push({ asked: this.named(asked), ...rest, body: this.plain(body) });
  }

  private plain(value: unknown, member = ""): unknown {
    if (typeof value === "string") return member === "next_cursor" ? "<cursor>" : this.named(value);
    if (typeof value === "number") return MEASURED.has(member) ? `<${member}>` : value;
    if (Array.isArray(value)) return value.map((each) => this.plain(each));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, this.plain(each, name)]));
  }

  private named(text: string): string {
    return text
      .replace(/[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/g, (id) => this.name(id, "id"))
      .replace(/\b[0-9a-f]{16}\b/g, (receipt) => this.name(receipt, "receipt"))
      .replace(/\d{4}-\d\d-\d\d(T[\d:.]+Z| [\d:]+ UTC)/g, "<time>")
      .replace(/^\d{13}$/, "<time>")
      .replace(/cursor=[^&]+/, "cursor=<cursor>")
      .replace(/^worker:.*/, "worker:<name>");
  }

  private name(value: string, kind: string): string {
    const known = this.names.get(value) ?? `<${kind} ${this.names.size + 1}>`;
    this.names.set(value, known);
    return known;
  }
}
