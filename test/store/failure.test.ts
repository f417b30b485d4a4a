// The meaning of an error of the store: unavailable for now, or a fault of the request.
import { describe, expect, it } from "vitest";
import { isStoreAway, sqlStateOf } from "../../src/store/engine/failure.js";

describe("an error of the store", () => {
  it.each([
    "ECONNREFUSED",
    "ECONNRESET",
    "EPIPE",
    "EAI_AGAIN",
    "CONNECTION_CLOSED",
    "CONNECT_TIMEOUT",
    "08006",
    "57P01",
    "57014",
    "53300",
    "55000",
    "55P03",
    "40P01",
  ])("%s: the store is away", (code) => expect(isStoreAway({ code })).toBe(true));

  it.each(["23505", "22P02", "42601", "XX000", "FST_ERR_BAD_URL", "ENV lacks", undefined])(
    "%s: the request is at fault",
    (code) => expect(isStoreAway({ code })).toBe(false),
  );

  it.each(["FATAL", "PANIC"])("XX000 that has ended the session (%s): the store is away", (severity) =>
    expect(isStoreAway({ code: "XX000", severity })).toBe(true),
  );

  it.each([
    { code: "XX000", severity: "ERROR" },
    { code: "28P01", severity: "FATAL" },
  ])("$code, $severity: the request is at fault", (error) => expect(isStoreAway(error)).toBe(false));

  it("distinguishes the codes of Postgres from those of the system", () => {
    expect(["23505", "P0001", "XX000"].map((code) => sqlStateOf({ code }))).toEqual(["23505", "P0001", "XX000"]);
    expect(["EPIPE", "ECONNRESET", "CONNECTION_ENDED"].map((code) => sqlStateOf({ code }))).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });
});
