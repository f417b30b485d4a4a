// How every command loads a module with definitions: what it may import, in ESM and CommonJS projects, and what is said of one that cannot be loaded. It needs no service.
// @module-tag long
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { until } from "../harness/until.js";
import { write } from "./dev/rig.js";
import { begin, saga } from "./rig.js";

const home = mkdtempSync(join(tmpdir(), "saga-loader-"));
afterAll(() => rmSync(home, { recursive: true }));

const PARTS = {
  "tsconfig.json": '{ "compilerOptions": { "paths": { "@lib/*": ["./lib/*"] } } }',
  "lib/word.ts": 'export enum Word { one = "one" }\nexport const word: string = Word.one;',
  "data.json": '{ "title": "A title 🙂" }',
  "node_modules/a-package/package.json": '{ "name": "a-package", "exports": "./index.cjs" }',
  "node_modules/a-package/index.cjs": 'exports.end = { id: "done", type: "end", output: {} };',
};
const IMPORTS = `
import { word } from "./lib/word.js";
import { Word } from "@lib/word";
import data from "./data.json";
import { end } from "a-package";
`;
const made = (place: string) => `${IMPORTS}
console.log("a line of the module");
const document = { id: word, name: data.title + Word.one + ${place}, start: "done", steps: [end] };
export const typed = { id: word, toJSON: () => document };
export default typed;
export const helper = (text: string): string => text;
`;

/** In a folder that is not the project's, as from the root of a repository. */
async function graphOf(files: Readonly<Record<string, string>>, module: string) {
  const folder = mkdtempSync(join(home, "project-"));
  write(folder, files);
  const before = readdirSync(folder);
  const ended = await saga(["graph", join(folder, module), "-o", "json"], { PATH: "" }, "", home);
  expect(readdirSync(folder)).toEqual(before);
  return { folder, ...ended };
}

describe("a module", () => {
  it.each([
    ["an ESM project", "order.ts", { "package.json": '{ "type": "module" }' }, "import.meta.url.slice(-8)"],
    ["a CommonJS project", "order.ts", { "package.json": "{}" }, "__filename.slice(-8)"],
    ["any project, with .mts", "order.mts", { "package.json": "{}" }, "import.meta.url.slice(-9)"],
    ["any project, with .cts", "order.cts", { "package.json": '{ "type": "module" }' }, "__filename.slice(-9)"],
  ])("of %s imports files, JSON, packages and paths of tsconfig.json", async (_, name, files, place) => {
    const { code, stdout, stderr } = await graphOf({ ...PARTS, ...files, [name]: made(place) }, name);
    expect([code, stderr]).toEqual([0, "a line of the module\n"]);
    expect(JSON.parse(stdout)).toMatchObject([{ id: "one" }]);
  });

  it("of plain CommonJS exports what it assigns", async () => {
    const text = `const { end } = require("a-package");
const order = { id: "order", name: require("./data.json").title, start: "done", steps: [end] };
module.exports = Object.fromEntries([["order", order], ["other", 7]]);`;
    const { code, stdout, stderr } = await graphOf({ ...PARTS, "order.js": text }, "order.js");
    expect([code, stderr]).toEqual([0, ""]);
    expect(JSON.parse(stdout)).toMatchObject([{ id: "order" }]);
  });

  it("with a trigger has it left out, with a word", async () => {
    const text = `export const a = { id: "a", name: "A", start: "done", steps: [{ id: "done", type: "end" }] };
export const nightly = { trigger_type: "cron", workflow_id: "a", config: { schedule: "0 1 * * *" } };`;
    const { code, stderr } = await graphOf({ "a.ts": text }, "a.ts");
    expect([code, stderr]).toEqual([0, expect.stringMatching(/^saga: \S+a\.ts#nightly is a trigger, and is left out/)]);
  });
});

describe("of a module that cannot be loaded", () => {
  const ESM = { "package.json": '{ "type": "module" }' };

  it.each([
    ["a syntax error in TypeScript", { "a.ts": "const a = 1;\n\nexport const b = = 2;" }, "a.ts", "a.ts:3:17"],
    [
      "a syntax error in a file that it imports",
      { ...ESM, "a.ts": 'import { b } from "./b.ts"; export const a = b;', "b.ts": "\nexport const b: = 1;" },
      "a.ts",
      "b.ts:2:",
    ],
    [
      "a syntax error in an ES module",
      { ...ESM, "a.js": 'import "./b.js";', "b.js": "\nconst b = = 2;" },
      "a.js",
      "b.js:2",
    ],
    ["a syntax error in CommonJS", { "a.js": 'require("./b.js");', "b.js": "\n\nconst b = = 2;" }, "a.js", "b.js:3"],
    [
      "an error that it throws",
      { ...ESM, "a.ts": 'interface A { a: 1 }\n\nthrow new Error("not today");' },
      "a.ts",
      "a.ts:3:7",
    ],
    [
      "an error that a CommonJS module throws",
      { "a.ts": 'interface A { a: 1 }\n\n\nthrow new Error("not today");' },
      "a.ts",
      "a.ts:4:7",
    ],
  ])("file and line are named: %s", async (_, files: Readonly<Record<string, string>>, module, place) => {
    const { folder, code, stdout, stderr } = await graphOf(files, module);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(new RegExp(`^saga: ${join(folder, module)} cannot be loaded: `));
    expect(stderr).toContain(join(folder, place));
    // No line of the command's own.
    expect(stderr).not.toMatch(/node:|describe/);
  });

  it("that ends its process, and of one that exports nothing, it is said", async () => {
    expect(await graphOf({ "a.ts": "process.exit(3);" }, "a.ts")).toMatchObject({
      ...{ code: 1, stdout: "" },
      stderr: expect.stringMatching(/cannot be loaded: its process ended with code 3\n$/),
    });
    expect(await graphOf({ "a.ts": "export const a = 1;" }, "a.ts")).toMatchObject({
      ...{ code: 1, stdout: "" },
      stderr: expect.stringContaining("exports no saga"),
    });
  });

  it("that does not end, Ctrl-C ends the loading with 130", async () => {
    const folder = mkdtempSync(join(home, "hangs-"));
    write(folder, { "a.ts": 'console.log("loading"); await new Promise((done) => setTimeout(done, 1e6));', ...ESM });
    const command = begin(["graph", join(folder, "a.ts")], {});
    await until(() => command.stderr.includes("loading"));
    command.child.kill("SIGINT");
    expect(await command.ended).toMatchObject({ code: 130, stdout: "" });
  });
});

describe("saga test --watch", () => {
  it("watches a module that cannot be loaded, and what it imports, until it is mended", async () => {
    const folder = mkdtempSync(join(home, "watched-"));
    const document = '{ id: "a", name, start: "done", steps: [{ id: "done", type: "end" }] }';
    write(folder, {
      "package.json": '{ "type": "module" }',
      "a.saga-test.json": JSON.stringify({ workflow: "a.ts", tests: [{ name: "ends" }] }),
      "a.ts": `import { name } from "./name.ts"; export const a = ${document};`,
      "name.ts": "export const name = ;",
    });
    const command = begin(["test", "--watch"], {}, { cwd: folder });
    const rounds = (count: number) => until(() => command.stderr.split("waiting for a change").length === count + 1);
    await command.shows("name.ts:1:");
    await rounds(1);
    write(folder, { "name.ts": "\nexport const name = ;" });
    await command.shows("name.ts:2:");
    await rounds(2);
    write(folder, { "name.ts": "\n\nexport const name = ;" });
    await command.shows("name.ts:3:");
    await rounds(3);
    write(folder, { "name.ts": 'export const name = "A";' });
    await command.shows("1 passed, 0 failed");
    command.child.kill("SIGINT");
    expect((await command.ended).code).toBe(130);
  });
});
