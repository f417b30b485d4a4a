// What the console believes that a principal may do: by the roles that the operations need, and by the narrowing. What it offers in a browser is in
// access-roles.test.ts.
import { describe, expect, it } from "vitest";
import { ACTS, actsFor, actTitle, bulkActsFor } from "../../src/console/acts/acts.js";
import { mayDo, mayMakeTrigger } from "../../src/console/session/may.js";
import { NEEDS, type OperationId } from "../../src/console/session/needs.js";

const OPERATIONS = Object.keys(NEEDS) as OperationId[];
const as = (roles: readonly string[], more: object = {}) => ({ kind: "session", sub: "x", roles: [...roles], ...more });
const allowed = (...of: Parameters<typeof as>) => OPERATIONS.filter((operation) => mayDo(as(...of), operation));

describe("with access on", () => {
  it("a viewer may read, and change nothing", () => {
    const may = allowed(["viewer"]);
    expect(may).toEqual(expect.arrayContaining(["listSagas", "getSaga", "streamSaga", "listWorkers"]));
    const CHANGING =
      /^(start|signal|cancel|pause|resume|retry|skip|fail|terminate|release|rerun|fork|migrate|erase|create|change)/;
    expect(may.filter((operation) => CHANGING.test(operation))).toEqual([]);
    expect(may).not.toContain("getCluster");
  });

  it("a viewer is offered no act on a run, and an operator those that are possible", () => {
    const offered = (role: string) =>
      actsFor(
        () => true,
        (operation) => mayDo(as([role]), operation),
      ).map(({ name }) => name);
    expect(offered("viewer")).toEqual([]);
    expect(offered("operator")).toEqual(ACTS.map(({ name }) => name));
    expect(
      actsFor(
        (name) => name === "pause",
        () => true,
      ).map(({ name }) => name),
    ).toEqual(["pause"]);
  });

  it("an operator is offered in bulk every act on a run, and an admin to erase runs, too", () => {
    const offered = (role: string) => bulkActsFor((operation) => mayDo(as([role]), operation)).map(({ name }) => name);
    expect(offered("viewer")).toEqual([]);
    // A fork begins at one step of one run.
    expect(offered("author")).toEqual(ACTS.map(({ name }) => name).filter((name) => name !== "fork"));
    expect(offered("admin")).toEqual([...offered("author"), "erase"]);
    expect(actTitle("erase")).toBe("Erase the run");
  });

  it("each role of the ladder may do more than the one before", () => {
    const counts = ["viewer", "operator", "author", "admin"].map((role) => allowed([role]).length);
    expect(counts).toEqual([...new Set(counts)].sort((one, other) => one - other));
    expect(allowed(["admin"])).toContain("eraseSaga");
    expect(allowed(["author"])).not.toContain("eraseSaga");
  });

  it("a narrowed principal may not do what reaches other workflows", () => {
    const [whole, narrowed] = [allowed(["author"]), allowed(["author"], { workflows: ["billing.*"] })];
    expect(whole.filter((operation) => !narrowed.includes(operation)).sort()).toEqual(
      ["createRule", "publishEvent", "publishRule", "registerActions", "unpublishRule"].sort(),
    );
    expect(allowed(["author"], { workflows: ["*"] })).toEqual(whole);
    expect(allowed(["author"], { workflows: [] })).toEqual(narrowed);
  });

  it("a narrowed principal makes and changes triggers with a schedule, and none on records", () => {
    const makes = (principal: Parameters<typeof mayMakeTrigger>[0]) =>
      ["cron", "record_transition"].filter((type) => mayMakeTrigger(principal, type));
    expect(makes(as(["author"], { workflows: ["billing.*"] }))).toEqual(["cron"]);
    expect(makes(as(["author"], { workflows: [] }))).toEqual(["cron"]);
    for (const all of [undefined, as(["author"]), as(["author"], { workflows: ["*"] })])
      expect(makes(all)).toEqual(["cron", "record_transition"]);
  });

  it("an unknown role may do what anyone may, and all of them together everything", () => {
    expect(
      allowed(["superuser"]).filter((operation) => !["public", "credential"].includes(String(NEEDS[operation]))),
    ).toEqual([]);
    expect(allowed(["admin", "worker", "scrape", "platform"])).toEqual(OPERATIONS);
  });
});

describe("with access off", () => {
  it("anyone may do everything", () => {
    expect(OPERATIONS.filter((operation) => !mayDo(undefined, operation))).toEqual([]);
  });
});
