// The same mistake at every door: path parameters, queries, bodies, filters of bulk jobs, inputs under a schema, definitions, gRPC and RabbitMQ
// say it in the same words. Only the words are compared; what is refused is tested elsewhere.
import { describe, expect, it } from "vitest";
import { type Json, Schemas } from "../../machines/index.js";
import { helloProblem } from "../../src/dispatch/grpc/stream.js";
import { readMessage } from "../../src/events/message.js";
import { useRig } from "./rig.js";

const rig = useRig();

interface Refusal {
  readonly message: string;
  readonly details?: readonly { readonly path: string; readonly message: string }[];
}

const refused = async (method: "GET" | "POST", path: string, body?: unknown): Promise<Refusal> => {
  const { status, body: answer } = await rig.call(method, `/api/v1${path}`, body);
  expect([path, status]).toEqual([path, 400]);
  return answer;
};
/** What is said of each place. */
const said = ({ details = [] }: Refusal) => [...new Set(details.map(({ message }) => message))];

const start = (more: object) => refused("POST", "/sagas/start", { workflow_id: "w", ...more });
const filter = (more: object) => refused("POST", "/bulk", { action: "pause", filter: more });
const hello = (more: object) =>
  helloProblem(
    { worker_id: "w", service: "s", actions: [], in_flight: [], token: "", max_in_flight: 1, ...more } as never,
    1_000_000,
  );
const ID = "must be 1 to 128 of A-Z a-z 0-9 _ . : -";

describe("the words for what does not fit are the same at every door", () => {
  it("a UUID", async () => {
    const doors = [
      refused("GET", "/sagas/17"),
      refused("GET", "/sagas?parent_run_id=17"),
      start({ run_id: "17" }),
      start({ tenant_id: "acme" }),
      filter({ parent_run_id: "17" }),
      refused("POST", "/triggers", {
        trigger_type: "cron",
        workflow_id: "w",
        config: { schedule: "0 0 * * *" },
        tenant_id: "acme",
      }),
    ];
    for (const door of await Promise.all(doors)) expect(said(door)).toContain("must be a UUID");
  });

  it("an id", async () => {
    const doors = [
      refused("GET", "/workflows/a%20b"),
      refused("GET", "/sagas?workflow_id=a%20b"),
      start({ workflow_id: "a b" }),
      filter({ workflow_id: "a b" }),
    ];
    for (const door of await Promise.all(doors)) expect(said(door)).toEqual([ID]);
    expect(hello({ worker_id: "a b" })).toBe(`worker_id ${ID}`);
    expect(hello({ service: "a b" })).toBe(`service ${ID}`);
    expect(said(await refused("POST", "/workflows", definition({ id: "a b" })))).toEqual([ID]);
  });

  it("a topic", async () => {
    const words = "must be 1 to 255 of A-Z a-z 0-9 _ . : / -";
    expect(said(await refused("POST", "/events", { topic: "a b" }))).toEqual([words]);
    const step = { id: "e", type: "emit_event", topic: "a b" };
    expect(said(await refused("POST", "/workflows", definition({ start: "e", steps: [step] })))).toEqual([words]);
    const message = { content: Buffer.from("{}"), fields: { routingKey: "a b" }, properties: {} };
    expect(() => readMessage(message as never, { bodyBytes: 100, outputBytes: 100 })).toThrow(
      `the routing key ${words}`,
    );
  });

  it("the name of a member", async () => {
    const words = "must have a name of 1 to 128 of A-Z a-z 0-9 _ . : -";
    const headers = { "a b": "1" };
    expect(await refused("POST", "/events", { topic: "t", headers })).toMatchObject({
      details: [{ path: '$.headers["a b"]', message: words }],
    });
    const step = { id: "e", type: "emit_event", topic: "t", headers };
    expect(said(await refused("POST", "/workflows", definition({ start: "e", steps: [step] })))).toEqual([words]);
    expect(said(await refused("GET", "/sagas?label.a%20b=1"))).toEqual([words]);
    expect(said(await filter({ "label.a b": "1" }))).toEqual([words]);
    expect(said(await start({ labels: headers }))).toEqual([`${words}, and not . or ..`]);
  });

  it.each<[string, unknown, string, string]>([
    ["too low", 0, "limit=0", "must be at least 1"],
    ["too high", 1_000_000, "limit=1000000", "must be at most"],
    ["no number", "x", "limit=x", "must be a whole number"],
    ["no whole number", 1.5, "limit=1.5", "must be a whole number"],
  ])("a number that is %s", async (_, json, query, words) => {
    const doors = [
      refused("GET", `/sagas?${query}`),
      refused("POST", "/bulk", { filter: {}, action: "pause", limit: json }),
    ];
    if (json !== 1_000_000) doors.push(filter({ version: json }));
    for (const door of await Promise.all(doors)) expect(said(door)).toEqual([expect.stringContaining(words)]);
  });

  it.each<[string, Json, string]>([
    ["a string", 1, "must be a string"],
    ["true or false", 1, "must be true or false"],
    ["an object", 1, "must be an object"],
  ])("what must be %s", async (type, value, words) => {
    const members = { "a string": "entrypoint", "true or false": "dry_run", "an object": "inputs" };
    expect(said(await start({ [members[type as keyof typeof members]]: value }))).toEqual([words]);
    const inTheDefinition = { "a string": "name", "true or false": "published", "an object": "entrypoints" };
    const member = inTheDefinition[type as keyof typeof members];
    expect(said(await refused("POST", "/workflows", definition({ [member]: value })))).toContain(words);
    const kinds = { "a string": "string", "true or false": "boolean", "an object": "object" };
    const schema = { properties: { a: { type: kinds[type as keyof typeof kinds] } } };
    expect(new Schemas().conforms(schema, { a: value })).toEqual([`/a ${words}`]);
  });

  it("one of a few, and too much of a text", async () => {
    const doors = [
      [refused("GET", "/sagas?sort=up"), "must be one of -started_at, started_at"],
      [filter({ paused_reason: "bored" }), "must be one of"],
      [refused("POST", "/bulk", { filter: {}, action: "stop" }), "must be one of pause, resume"],
      [
        refused("POST", "/sagas/start", { workflow_id: "w", business_key: "x".repeat(300) }),
        "must have at most 256 characters",
      ],
      [refused("GET", `/sagas?business_key=${"x".repeat(300)}`), "must have at most 256 characters"],
      [refused("GET", "/sagas?business_key="), "must not be empty"],
      [start({ business_key: "" }), "must not be empty"],
    ] as const;
    for (const [door, words] of doors) expect(said(await door)).toEqual([expect.stringContaining(words)]);
  });

  it("what is missing stands at its own place", async () => {
    expect((await refused("POST", "/sagas/start", {})).details).toEqual([
      { path: "$.workflow_id", message: "is required" },
    ]);
    const problems = (await refused("POST", "/workflows", { id: "w", name: "W", version: 1, steps: [] })).details;
    expect(problems).toContainEqual({ path: "$.start", message: "is required" });
  });

  it("no door shows a pattern of ours, or shouts", async () => {
    const many = {
      workflow_id: "a b",
      run_id: "1",
      tenant_id: "2",
      labels: { "a b": 1 },
      delay_ms: -1,
      version: 0,
      dry_run: 1,
    };
    const action = { action_name: "a.b", transport: "tcp", default_retry: { max_attempts: 0, initial_backoff_ms: -1 } };
    const doors = [
      refused("POST", "/sagas/start", many),
      refused("POST", "/registry/register", { service: "a b", actions: [action, { action_name: "a", version: 0 }] }),
      refused("POST", "/events", { topic: "", headers: { a: 1 } }),
    ];
    for (const { details = [] } of await Promise.all(doors)) {
      expect(details.length).toBeGreaterThan(1);
      for (const { message } of details)
        expect(message).not.toMatch(/\^|\bNOT\b|[<>]=|must be (string|number|integer|object|array|boolean)\b/);
    }
  });
});

describe("a name that is misspelt", () => {
  it("is refused with the one that was meant, in a filter of a bulk job and in a query", async () => {
    const hint = 'is unknown (did you mean "workflow_id"?): ';
    const { details } = await filter({ worklow_id: "order" });
    expect(details).toEqual([{ path: "$.filter.worklow_id", message: expect.stringContaining(hint) }]);
    for (const list of ["/sagas", "/sagas/counts", "/triggers"])
      expect(said(await refused("GET", `${list}?worklow_id=order`))).toEqual([expect.stringContaining(hint)]);
  });
});

function definition(more: object) {
  return { id: "w", version: 1, name: "W", start: "a", steps: [{ id: "a", type: "noop" }], ...more };
}
