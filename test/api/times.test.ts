// One grammar of times through every door: what one takes all take, as the same point in time, and what one refuses all refuse.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compileExpression } from "../../machines/expression/index.js";
import { type Json, Schemas } from "../../machines/index.js";
import { misfits } from "../../src/console/parts/form-validator.js";

import { cases } from "../harness/long.js";
import { problemsOf } from "../machines/steps/rig.js";
import { writtenTimes } from "../machines/written-times.js";
import { insertRun, useRig } from "./rig.js";

const FIRST_MS = Date.parse("0001-01-01T00:00:00.000Z");
const LAST_MS = Date.parse("9999-12-31T23:59:59.999Z");

const rig = useRig();
const schemas = new Schemas();
const FORMAT = { properties: { at: { format: "date-time" } } };
const timestamp = compileExpression("timestamp(inputs.at)");
const approval = { type: "manual_approval", assignee: "ann" };

/** Whether a door takes the text. `timestamp()` has the years 1 to 9999 only. */
const DOORS: Readonly<Record<string, (text: string) => boolean>> = {
  "format: date-time": (at) => schemas.conforms(FORMAT, { at }).length === 0,
  "a form of the console": (at) => misfits(FORMAT, { at }).length === 0,
  wait_until: (until) => problemsOf({ type: "wait_until", until }).length === 0,
  due_at: (due_at) => problemsOf({ ...approval, due_at }).length === 0,
  "timestamp()": (at) => cel(at) !== undefined,
};

function cel(at: string): Json | undefined {
  try {
    return timestamp.evaluate({ inputs: { at } });
  } catch {
    return undefined;
  }
}

const LEGAL = {
  "a leap second": "1990-12-31T23:59:60Z",
  "a leap second elsewhere": "1990-12-31T15:59:60-08:00",
  "small letters": "1991-01-01t00:00:00z",
  "an offset": "1991-01-01T05:30:00+05:30",
  "an offset that Postgres refuses": "1990-12-31T00:01:00-23:59",
  "no offset known": "1991-01-01T00:00:00-00:00",
  "a fraction without end": `1991-01-01T00:00:00.${"0".repeat(40)}1Z`,
};
const ILLEGAL = {
  "an offset of hours only": "1991-01-01T00:00:00+02",
  "an offset without a colon": "1991-01-01T00:00:00+0200",
  "hour 24": "1991-01-01T24:00:00Z",
  "second 60 in the middle of a day": "1991-01-01T12:59:60Z",
  "a local leap second": "1990-12-31T23:59:60+01:00",
  "a day that does not exist": "1991-02-29T00:00:00Z",
  "a space": "1991-01-01 00:00:00Z",
  "no seconds": "1991-01-01T00:00Z",
  "no offset": "1991-01-01T00:00:00",
  "a date": "1991-01-01",
  "a year of five digits": "+01991-01-01T00:00:00Z",
};
const runsOf = async (query: string): Promise<string[] | number> => {
  const { status, body } = await rig.call("GET", `/api/v1/sagas?workflow_id=timed&${query}`);
  return status === 200 ? body.items.map(({ id }: { id: string }) => id) : status;
};
const written = (text: string) => encodeURIComponent(text);

describe("a time", () => {
  it.each(Object.entries(LEGAL))("with %s is taken at every door", async (_, text) => {
    for (const [door, takes] of Object.entries(DOORS)) expect(takes(text), door).toBe(true);
    for (const filter of ["started_after", "started_before"])
      expect(await runsOf(`${filter}=${written(text)}`), filter).not.toBe(400);
    const bulk = await rig.call("POST", "/api/v1/bulk", {
      ...{ action: "cancel", filter: { workflow_id: "timed", started_before: text } },
    });
    expect(bulk.status).toBe(202);
  });

  it.each(Object.entries(ILLEGAL))("with %s is refused at every door", async (_, text) => {
    for (const [door, takes] of Object.entries(DOORS)) expect(takes(text), door).toBe(false);
    for (const filter of ["started_after", "started_before"])
      expect(await runsOf(`${filter}=${written(text)}`), filter).toBe(400);
  });

  it("is the same point in time in a filter of runs, in every legal form", async () => {
    const at = Date.UTC(1991, 0, 1);
    const [before, then, after] = await Promise.all(
      [at - 1, at, at + 1].map((ms) =>
        insertRun(rig, { workflow_id: "timed", started_at: new Date(ms).toISOString() }),
      ),
    );
    for (const [form, text] of Object.entries(LEGAL)) {
      expect(await runsOf(`started_after=${written(text)}`), form).toEqual([after]);
      expect(await runsOf(`started_before=${written(text)}`), form).toEqual([before]);
    }
    expect(await runsOf("started_before=1991-01-01T00:00:00.0001Z&sort=started_at")).toEqual([before, then]);
    expect(await runsOf("started_after=0000-01-01T00:00:00Z&sort=started_at")).toEqual([before, then, after]);
    expect(await runsOf("started_before=0000-01-01T00:00:00Z")).toEqual([]);
    expect(await runsOf("started_after=9999-12-31T23:59:59.999Z")).toEqual([]);
  });

  it("is read by the schema, by steps and by expressions as the grammar has it", { tags: "both" }, () => {
    fc.assert(
      fc.property(writtenTimes, ({ text, ms }) => {
        for (const [door, takes] of Object.entries(DOORS)) {
          if (door !== "timestamp()") expect(takes(text), `${door}: ${text}`).toBe(ms !== undefined);
        }
        const known = ms !== undefined && ms >= FIRST_MS && ms <= LAST_MS;
        expect(cel(text)).toBe(known ? new Date(ms).toISOString() : undefined);
      }),
      { numRuns: cases(200, 2_000) },
    );
  });

  it("in a cursor that no list gave is refused", async () => {
    const [id] = [await insertRun(rig, { workflow_id: "cursors" }), await insertRun(rig, { workflow_id: "cursors" })];
    const page = "/api/v1/sagas?workflow_id=cursors&sort=started_at&limit=1";
    const { next_cursor } = (await rig.call("GET", page)).body;
    const [list] = JSON.parse(Buffer.from(next_cursor, "base64url").toString("utf8"));
    for (const time of ["0000-01-01T00:00:00.000Z", "2026-02-30T00:00:00.000Z", "2026-01-01T23:59:60.000Z"]) {
      const cursor = Buffer.from(JSON.stringify([list, time, id])).toString("base64url");
      expect((await rig.call("GET", `${page}&cursor=${cursor}`)).status, time).toBe(400);
    }
    expect((await rig.call("GET", `${page}&cursor=${next_cursor}`)).status).toBe(200);
  });
});
