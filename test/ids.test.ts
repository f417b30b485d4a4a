// Ids: formats that are stored and sent must never change.
import { expect, test } from "vitest";
import { derivedUuid, eventId, isUuid, shardOf, uuidv7 } from "../src/ids.js";

test("derived ids are the same for ever", () => {
  expect(derivedUuid("seed")).toBe("19b25856-e1c1-80ca-834c-ffc8b59b23ad");
  expect(derivedUuid("seed", 0x0f)).toBe("19b25856-e1c1-80ca-834c-ffc8b59b230f");
  expect(shardOf(eventId("0190a000-0000-7000-8000-0000000000aa", 1))).toBe(0xaa);
  expect(eventId("0190a000-0000-7000-8000-0000000000aa", 1)).not.toBe(
    eventId("0190a000-0000-7000-8000-0000000000aa", 2),
  );
});

test("new ids are version 7, in time order, and carry their shard", () => {
  const before = Date.now();
  const id = uuidv7(200);
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(shardOf(id)).toBe(200);
  expect(Number.parseInt(id.replace("-", "").slice(0, 12), 16)).toBeGreaterThanOrEqual(before);
  expect(new Set(Array.from({ length: 1000 }, () => uuidv7())).size).toBe(1000);
  expect(isUuid(id) && !isUuid(`${id}0`)).toBe(true);
});
