// The command `saga` on a terminal: the live tree, the width of tables, colours, what is typed, and Ctrl-C. The terminal is a pseudo-terminal.
// @module-tag long
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { widthOf } from "../../src/cli/frame/text.js";
import { until } from "../harness/until.js";
import { describeWithTerminal, lastPicture, onTerminal, plain, useRig } from "./rig.js";

const CTRL_C = "\u0003";
const HIDE = "\u001b[?25l";
const SHOW = "\u001b[?25h";

const home = mkdtempSync(join(tmpdir(), "saga-terminal-"));
afterAll(() => rmSync(home, { recursive: true }));

describeWithTerminal("saga on a terminal", () => {
  const rig = useRig();
  const startTrip = async (inputs = "{}") => (await rig().saga("start", "trip", "--inputs", inputs)).stdout.trim();

  it("watch draws branches, a failure and the rollback, and gives the cursor back", async () => {
    const id = await startTrip('{"fail": "card_declined"}');
    const command = onTerminal(["watch", id], rig().env, { columns: 70 });
    await command.shows("waits for signal go");
    const parts = [
      /trip 1 {2}\S+ paused: children/,
      /\n {2}✓ reserve/,
      /\n {4}left succeeded.*\n {6}✓ book/,
      /\n {4}right paused: signal.*\n {6}◌ ask waits for signal go/,
    ];
    // The branches come one by one.
    const missing = () => parts.filter((part) => !part.test(lastPicture(command.stdout)));
    await until(() => missing().length === 0, { what: "a picture with both branches" });
    await rig().saga("signal", id, "go");
    const { code, stdout } = await command.ended;
    const end = lastPicture(stdout);
    expect(end).toMatch(/trip 1 {2}\S+ failed/);
    expect(end).toMatch(/✓ book ↩ undone/);
    expect(end).toMatch(/✓ reserve ↩ undone/);
    expect(end).toMatch(/✗ charge card_declined: as it was asked/);
    expect(end).toContain("card_declined at charge: as it was asked\n");
    expect([code, stdout.split(HIDE).length, stdout.trimEnd().lastIndexOf(SHOW) > stdout.lastIndexOf(HIDE)]).toEqual([
      1,
      2,
      true,
    ]);
    expect(end.split("\n").every((line) => widthOf(line) <= 70)).toBe(true);
  });

  it("Ctrl-C ends watch with 130 and the cursor shown, and the run goes on", async () => {
    const id = await startTrip();
    const command = onTerminal(["watch", id], rig().env);
    await command.shows("waits for signal go");
    command.write(CTRL_C);
    const { code, stdout } = await command.ended;
    expect(code).toBe(130);
    expect(stdout.lastIndexOf(SHOW)).toBeGreaterThan(stdout.lastIndexOf(HIDE));
    expect(plain(stdout)).toContain(`run ${id} goes on: saga watch ${id}`);
    expect(await rig().api("GET", `/sagas/${id}`)).toMatchObject({ state: "paused" });
    await rig().saga("terminate", id, "--reason", "test");
  });

  it("start --watch shows the run that it has started, and prints its output at the end", async () => {
    const { code, stdout } = await onTerminal(["start", "echo", "--watch", "--inputs", '{"say": "tea"}'], rig().env)
      .ended;
    expect(code).toBe(0);
    expect(lastPicture(stdout)).toMatch(/echo 1 {2}\S+ succeeded[\s\S]*"say": "tea"/);
  });

  it("list fits the width, in colours, but has none with NO_COLOR or a dumb terminal", async () => {
    await rig().saga(
      "start",
      "echo",
      "--wait",
      "--business-key",
      "a business key that is much too long for a narrow terminal 茶茶茶",
    );
    const list = async (env: Readonly<Record<string, string>>) =>
      (await onTerminal(["list", "--workflow", "echo"], { ...rig().env, ...env }, { columns: 90 }).ended).stdout;
    const coloured = await list({});
    expect(coloured).toContain("\u001b[32msucceeded");
    const lines = plain(coloured).trimEnd().split("\n");
    expect(lines.length).toBeGreaterThan(1);
    expect(lines.map(widthOf).filter((width) => width > 90)).toEqual([]);
    expect(await list({ NO_COLOR: "1" })).not.toContain("\u001b");
    expect(await list({ TERM: "dumb" })).not.toContain("\u001b");
  });

  it("profile set asks for the token without showing it, and Ctrl-C stores nothing", async () => {
    const env = { XDG_CONFIG_HOME: home };
    const asked = onTerminal(["profile", "set", "prod", "--url", "http://127.0.0.1:1"], env);
    await asked.shows("Token (empty: none): ");
    asked.write("wrong\u0015s3crett\u007f\r");
    const { code, stdout } = await asked.ended;
    expect([code, stdout.includes("s3cret"), stdout.includes("wrong")]).toEqual([0, false, false]);
    expect(JSON.parse(readFileSync(join(home, "saga", "config.json"), "utf8")).profiles.prod.token).toBe("s3cret");

    const left = onTerminal(["profile", "set", "other", "--url", "http://127.0.0.1:1"], env);
    await left.shows("Token (empty: none): ");
    left.write(`half${CTRL_C}`);
    expect((await left.ended).code).toBe(130);
    expect(readFileSync(join(home, "saga", "config.json"), "utf8")).not.toContain("other");
    expect(readdirSync(join(home, "saga"))).toEqual(["config.json"]);
  });

  it("bulk shows what it would do, and does nothing unless the number is typed", async () => {
    const ids = [await startTrip(), await startTrip()];
    const stateOf = async (id = "") => (await rig().api<{ state: string }>("GET", `/sagas/${id}`)).state;
    const args = [
      "bulk",
      "run",
      "terminate",
      "--workflow",
      "trip",
      "--roots",
      "--state",
      "running,paused",
      "--params",
      '{"reason": "test"}',
    ];
    const matched = await until(async () => {
      const { items } = await rig().api<{ items: { count: number }[] }>(
        "GET",
        "/sagas/counts?workflow_id=trip&root_only=true&state=running,paused",
      );
      return items.reduce((sum, { count }) => sum + count, 0);
    });
    const wrong = onTerminal(args, rig().env);
    await wrong.shows("Type the number of runs");
    wrong.write(`${matched + 1}\r`);
    const refused = await wrong.ended;
    expect([refused.code, plain(refused.stdout).includes("nothing was done")]).toEqual([5, true]);
    expect(await Promise.all(ids.map(stateOf))).not.toContain("cancelled");

    const right = onTerminal(args, rig().env);
    await right.shows(`terminate for ${matched} runs`);
    await right.shows("Type the number of runs");
    right.write(`${matched}\r`);
    const done = await right.ended;
    expect([done.code, plain(done.stdout)]).toEqual([
      0,
      expect.stringContaining(`done: ${matched} of ${matched} done, 0 refused`),
    ]);
    expect(await Promise.all(ids.map(stateOf))).toEqual(["cancelled", "cancelled"]);
  });
});
