// docs/testing.md is true: its unit test runs as it stands there, in a folder outside of the clone that has the package.
import { execFile } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";
import { commandsOf } from "./commands.js";

const ROOT = resolve(import.meta.dirname, "../..");

it("the unit test of docs/testing.md runs as the page says", async () => {
  const page = readFileSync(join(ROOT, "docs/testing.md"), "utf8");
  const [, text = ""] = /<!-- file -->\n\n```js\n([\s\S]*?)```/.exec(page) ?? [];
  const [command] = commandsOf("docs/testing.md");
  const [, name = ""] = /^node --test (\S+)\n$/.exec(command?.text ?? "") ?? [];
  expect([name === "", text === ""]).toEqual([false, false]);
  const folder = mkdtempSync(join(tmpdir(), "saga-testing-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const scope = join(folder, "node_modules", "@saga-orchestrator");
  mkdirSync(scope, { recursive: true });
  symlinkSync(join(ROOT, "src/sdk/define"), join(scope, "define"));
  copyFileSync(join(ROOT, "examples/quick-start/order.workflow.json"), join(folder, "order.workflow.json"));
  writeFileSync(join(folder, name), text);
  const reader = { cwd: folder, env: { PATH: process.env.PATH } };
  const { stdout } = await promisify(execFile)(process.execPath, ["--test", name], reader);
  expect(stdout).toMatch(/^(?:#|ℹ) pass 1$/m);
});
