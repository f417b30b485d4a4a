// Every command as a process in a pipe and on a pseudo-terminal, with the same arguments: the same exit code, and the same words. A pipe gets no colours, and with
// `-o json` one value. What commands do is in the other files, and so is what only a person at a terminal sees: pictures, questions, Ctrl-C.
// @module-tag long
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { COMMANDS } from "../../src/cli/commands.js";
import { until } from "../harness/until.js";
import { describeWithTerminal, type Ended, onTerminal, plain, saga, useRig } from "./rig.js";

const NOBODY = "01900000-0000-7000-8000-000000000000";
/** Wider than any line. */
const COLUMNS = 400;

interface Line {
  /** After the words of the command; `<run>`, `<trip>`, `<trigger>` and `<job>` are ids. */
  readonly args?: string;
  /** Default: 0. */
  readonly code?: number;
  /** Its output is a text or a stream, whatever `-o` says. */
  readonly isText?: true;
  /** It prints its result all the same. */
  readonly saysMore?: true;
}

const REFUSED = 5;
/** Each may be run again and again, with the same outcome. */
const LINES: Readonly<Record<string, Line>> = {
  start: { args: "echo" },
  get: { args: "<run>" },
  list: { args: "--workflow trip" },
  watch: { args: "<run>", isText: true },
  explain: { args: "<trip>" },
  query: { args: "<trip> run" },
  signal: { args: "<run> go", code: REFUSED },
  rerun: { args: "<trip>", code: REFUSED },
  fork: { args: "<trip> nowhere", code: REFUSED },
  // It has ended, so there is nothing to do.
  cancel: { args: "<run>" },
  pause: { args: "<run>", code: REFUSED },
  resume: { args: "<run>", code: REFUSED },
  retry: { args: "<run>", code: REFUSED },
  skip: { args: "<run>", code: REFUSED },
  fail: { args: "<run>", code: REFUSED },
  terminate: { args: "<run> --reason test", code: REFUSED },
  release: { args: "<run>", code: REFUSED },
  tasks: {},
  submit: { args: `<run> ${NOBODY} --approve`, code: REFUSED },
  dev: { code: 2, isText: true },
  publish: { args: "order.json" },
  diff: { args: "order.json" },
  graph: { args: "order.json" },
  convert: { args: "order.json", isText: true },
  import: { args: "machine.asl.json", isText: true },
  check: { args: "order.json" },
  test: { args: "order.saga-test.json" },
  "rule eval": { args: "rule.json --inputs {}" },
  "types pull": {},
  conformance: { code: 2 },
  "trigger list": {},
  "trigger create": { args: "nothing --cron 0_3_*_*_*", code: REFUSED },
  "trigger get": { args: "<trigger>" },
  "trigger fire": { args: NOBODY, code: REFUSED },
  "trigger fires": { args: "<trigger>" },
  "trigger backfill": { args: "<trigger> --from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z --dry-run" },
  "trigger enable": { args: "<trigger>" },
  "trigger disable": { args: "<trigger> --reason stock_is_counted" },
  "trigger delete": { args: NOBODY, code: REFUSED },
  workers: {},
  "bulk run": { args: "pause --workflow nothing" },
  "bulk list": {},
  "bulk get": { args: "<job>" },
  "bulk stop": { args: "<job>" },
  "bulk resume": { args: "<job>" },
  "migrate run": { args: "<trip> --to 9 --check", code: REFUSED },
  "migrate all": { args: "trip --to 1 --check" },
  bench: { args: "--runs 3" },
  // Redis and RabbitMQ are not set up.
  doctor: { code: 1, saysMore: true },
  "archive list": { args: "--dir ." },
  "archive show": { args: `${NOBODY} --dir .`, code: 1 },
  "archive verify": { args: "--dir ." },
  // The service has no encryption at rest.
  "tenant keys": { args: NOBODY, code: 1 },
  "tenant destroy-keys": { args: `${NOBODY} --confirm ${NOBODY}`, code: 1 },
  mcp: { args: "--what", code: 2, isText: true },
  "key create": { args: "--name all --roles platform,viewer" },
  "key list": {},
  "key revoke": { args: "nothing", code: 2 },
  "signing-secret": { args: "payments", isText: true },
  "tenant adopt": { args: "nothing", code: 2 },
  "profile set": { args: "prod", code: 2 },
  "profile use": { args: "nothing", code: 2 },
  "profile list": {},
  "profile remove": { args: "nothing", code: 2 },
  completion: { args: "bash", isText: true },
};

/** What is another one each time: ids, credentials, numbers, and with them the widths of columns. */
const words = (text: string): readonly string[] =>
  plain(text)
    .replace(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "ID")
    .replace(/(?:saga|whsec)_[\w+/=]+/g, "SECRET")
    .split("\n")
    .map((line) =>
      line
        .replace(/\d[\d.:TZ-]*(?: (?:ms|s|min|h|d)\b)?/g, "0")
        .replace(/\s+/g, " ")
        .trim(),
    )
    .filter((line) => line !== "")
    .sort();

describeWithTerminal("every command", () => {
  const rig = useRig();
  const home = mkdtempSync(join(tmpdir(), "saga-everywhere-"));
  afterAll(() => rmSync(home, { recursive: true }));
  const ids = new Map<string, string>();
  const settings = () => ({
    ...{ ...rig().env, DATABASE_URL: rig().database.url, XDG_CONFIG_HOME: home },
    SAGA_SIGNING_SECRET: "0123456789abcdef0123456789abcdef",
  });
  const argsOf = (name: string): readonly string[] => [
    ...name.split(" "),
    ...(LINES[name]?.args
      ?.replace(/<(\w+)>/g, (_, of: string) => ids.get(of) ?? of)
      .split(" ")
      .map((one) => one.replaceAll("_", " ")) ?? []),
  ];
  const inPipe = (...args: readonly string[]) => saga(args, settings(), "", home);
  const inTerminal = (args: readonly string[]): Promise<Ended> =>
    onTerminal(args, settings(), { columns: COLUMNS, cwd: home }).ended;

  beforeAll(async () => {
    const write = (name: string, content: unknown) => writeFileSync(join(home, name), JSON.stringify(content));
    write("order.json", { id: "a", name: "A", start: "z", steps: [{ id: "z", type: "end" }] });
    write("machine.asl.json", { StartAt: "A", States: { A: { Type: "Succeed" } } });
    write("order.saga-test.json", { workflow: "order.json", tests: [{ name: "ends" }] });
    const row = { when: "true", then: { by: "freight" } };
    write("rule.json", {
      rule_id: "r",
      name: "R",
      rule_type: "decision_table",
      spec: { hit_policy: "first", rows: [row] },
    });
    writeFileSync(join(home, "saga.config.json"), "{");
    await inPipe("publish", "order.json");
    ids.set("run", (await rig().json<{ id: string }>("start", "echo", "--wait")).id);
    ids.set("trip", (await inPipe("start", "trip")).stdout.trim());
    ids.set("trigger", (await inPipe("trigger", "create", "echo", "--cron", "0 3 1 1 *")).stdout.trim());
    const bulk = ["bulk", "run", "pause", "--workflow", "echo", "--confirm", "1"];
    ids.set("job", (await inPipe(...bulk)).stdout.split(" ")[0] ?? "");
    // The trip stands still.
    await until(async () => (await inPipe("explain", ids.get("trip") ?? "")).stdout.includes("waits"));
  });

  it("is in the list", () => {
    expect(Object.keys(LINES).sort()).toEqual(COMMANDS.map(({ name }) => name).sort());
  });

  it.each(Object.keys(LINES))("says the same in a pipe and on a terminal: %s", async (name) => {
    const { code = 0, isText, saysMore } = LINES[name] ?? {};
    const args = argsOf(name);
    const piped = await inPipe(...args);
    expect(piped, args.join(" ")).toMatchObject({ code });
    expect(plain(piped.stdout + piped.stderr)).toBe(piped.stdout + piped.stderr);
    const typed = await inTerminal(args);
    expect(typed.code).toBe(code);
    if (name !== "watch") expect(words(typed.stdout)).toEqual(words(piped.stdout + piped.stderr));
    if (isText) return;
    const json = await inPipe(...args, "-o", "json");
    expect(json.code).toBe(code);
    if (code === 0 || saysMore) expect(() => JSON.parse(json.stdout), json.stdout).not.toThrow();
    else expect(json.stdout).toBe("");
  });
});
