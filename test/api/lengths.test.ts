// Lengths are counted in one way through every door, in code points: a text that a start takes can be asked for, and one door refuses what
// the other refuses.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { codePoints, firstCharacters, isLongerThan } from "../../machines/index.js";
import { envelope } from "../../src/api/http/envelope.js";
import { SagaError } from "../../src/errors.js";
import { readMessage } from "../../src/events/message.js";
import { failure } from "../../src/trigger/triggered-starts.js";
import { failureOf, finish } from "../machines/steps/rig.js";
import { insertRun, useRig, WORKFLOW } from "./rig.js";

const rig = useRig();
const EMOJI = "🎉";
/** With an accent in two characters, which people see as one: it counts as two. */
const TEXTS: Readonly<Record<string, string>> = { emoji: EMOJI, letters: "a", accents: "e\u0301", mixed: `a${EMOJI}` };
const filled = (unit: string, characters: number) => [...unit.repeat(characters)].slice(0, characters).join("");
const call = rig.call;
const start = (more: object, headers = {}) =>
  rig.call("POST", "/api/v1/sagas/start", { workflow_id: "orders", ...more }, headers);
const list = (query: string) => rig.call("GET", `/api/v1/sagas?${query}`);
const latin1 = (text: string) => Buffer.from(text, "utf8").toString("latin1");

type Door = (text: string) => Promise<boolean>;
const accepted = async (answer: Promise<{ status: number }>) => (await answer).status < 300;
const event = (more: object) => rig.call("POST", "/api/v1/events", { topic: "t", ...more });
/** A header of a message that is too long is left out. */
const message = (properties: { headers?: object; messageId?: string }): Promise<boolean> => {
  try {
    const limits = { bodyBytes: 10_000, outputBytes: 10_000 };
    const { event: read } = readMessage(
      { content: Buffer.alloc(0), fields: { routingKey: "t" }, properties: { headers: {}, ...properties } } as never,
      limits,
    );
    return Promise.resolve(Object.keys(read.headers).length === Object.keys(properties.headers ?? {}).length);
  } catch {
    return Promise.resolve(false);
  }
};
const step = (draft: { type: string; [name: string]: unknown }, text: string): Promise<boolean> => {
  const run = finish([{ ...draft }], { inputs: { text } });
  if (run.state === "failed") expect(failureOf(run)).toContain("expression_error");
  return Promise.resolve(run.state === "succeeded");
};

/** The routes that take a text, by the most characters that it may have and by what it is. */
const DOORS: Readonly<Record<string, { readonly most: number; readonly doors: Readonly<Record<string, Door>> }>> = {
  "a label": {
    most: 256,
    doors: {
      "of a start": (text) => accepted(start({ labels: { l: text } })),
      "as a filter": (text) => accepted(list(`label.l=${encodeURIComponent(text)}`)),
      "in the filter of a bulk job": (text) =>
        accepted(call("POST", "/api/v1/bulk", { action: "cancel", filter: { "label.l": text } })),
    },
  },
  "a business key": {
    most: 256,
    doors: {
      "of a start": (text) => accepted(start({ business_key: text })),
      "as a filter": (text) => accepted(list(`business_key=${encodeURIComponent(text)}`)),
      "as the beginning that is searched for": (text) => accepted(list(`q=${encodeURIComponent(text)}`)),
    },
  },
  "an idempotency key": {
    most: 255,
    doors: {
      "in a body": (text) => accepted(start({ idempotency_key: text })),
      "in the header": (text) => accepted(start({}, { "idempotency-key": latin1(text) })),
      "of an event": (text) => accepted(event({ idempotency_key: text })),
      "as the id of a message": (text) => message({ messageId: text }),
    },
  },
  "the header of an event": {
    most: 1_024,
    doors: {
      "over HTTP": (text) => accepted(event({ headers: { h: text } })),
      "over RabbitMQ": (text) => message({ headers: { h: text } }),
      "of a step": (text) => step({ type: "emit_event", topic: "t", headers: { h: "${inputs.text}" } }, text),
    },
  },
  "an assignee": {
    most: 512,
    doors: {
      "as a filter of tasks": (text) =>
        accepted(call("GET", `/api/v1/user_tasks?assignee=${encodeURIComponent(text)}`)),
      "of a step": (text) =>
        step({ type: "manual_approval", assignee: "${inputs.text}", due_in_ms: 1, on_timeout: "continue" }, text),
    },
  },
  "the name of a metric": {
    most: 128,
    doors: { "of a step": (text) => step({ type: "metric_emit", kind: "gauge", name: "${inputs.text}" }, text) },
  },
};

describe.each(Object.entries(DOORS))("%s", (_, { most, doors }) => {
  it.each(Object.entries(TEXTS))(`of %s has at most ${most} characters at every door`, async (_, unit) => {
    await rig.call("POST", "/api/v1/workflows", { ...WORKFLOW, published: true });
    for (const [door, takes] of Object.entries(doors)) {
      expect(await takes(filled(unit, most)), door).toBe(true);
      expect(await takes(filled(unit, most + 1)), `${door}, one more`).toBe(false);
    }
  });
});

describe("a label of 200 emoji", () => {
  it("that a start takes is found by it", async () => {
    const text = EMOJI.repeat(200);
    expect((await start({ labels: { mood: text } })).status).toBe(202);
    const id = await insertRun(rig, { workflow_id: "moody" });
    await rig.database.sql`insert into run_labels ${rig.database.sql({ run_id: id, name: "mood", value: text })}`;
    const { status, body } = await list(`label.mood=${encodeURIComponent(text)}`);
    expect([status, body.items?.map((run: { id: string }) => run.id)]).toEqual([200, [id]]);
  });
});

describe("a text that is cut", () => {
  const wellFormed = (value: unknown) => expect(JSON.stringify(value)).not.toMatch(/\\ud[89a-f]/i);

  it("keeps whole characters: in the message and the details of an error, and in the error of a fire", () => {
    const text = `a${EMOJI.repeat(6_000)}`;
    const details = [{ path: text, message: text }];
    wellFormed(envelope(new SagaError(400, "bad_request", text, details), "r"));
    wellFormed(failure(new SagaError(400, "bad_request", text)));
    expect(envelope(new SagaError(400, "bad_request", EMOJI.repeat(4_096)), "r")).toMatchObject({
      message: EMOJI.repeat(4_096),
    });
  });

  it("keeps whole characters of the names of parameters and of the members of a filter", async () => {
    const name = `a${EMOJI.repeat(200)}`;
    const asked = await list(`${encodeURIComponent(name)}=1`);
    const filtered = await call("POST", "/api/v1/bulk", { action: "cancel", filter: { [name]: "1" } });
    for (const { status, body } of [asked, filtered]) {
      expect(status).toBe(400);
      wellFormed(body);
    }
  });
});

describe("the length of a text", () => {
  it("is that of the array of its code points", () => {
    const texts = fc.string({
      unit: fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("\ud83c", "\udf89", EMOJI)),
    });
    fc.assert(
      fc.property(texts, fc.nat({ max: 20 }), (text, most) => {
        expect(codePoints(text)).toBe([...text].length);
        expect(isLongerThan(text, most)).toBe([...text].length > most);
        expect(firstCharacters(text, most)).toBe([...text].slice(0, most).join(""));
      }),
      { numRuns: 500 },
    );
  });
});
