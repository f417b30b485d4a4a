// docs/security.md is true: its commands lead from nothing to a run with access control, its settings are read, what compose.yaml sets starts, and
// every test that it names exists.
// @module-tag both
import { execFile } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";
import { ROLES } from "../../src/access/roles.js";
import { loadConfig } from "../../src/config/index.js";
import { freePorts } from "../harness/ports.js";
import { comesAbout, commandsOf, useTerminal } from "./commands.js";

const ROOT = resolve(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const PAGE = read("docs/security.md");
const blocks = commandsOf("docs/security.md");
const textsOf = (runner: string) => blocks.filter((block) => block.runner === runner).map(({ text }) => text);
const { dataDir, run } = useTerminal();

describe("the threats of docs/security.md", { tags: "short" }, () => {
  const [, section = ""] = PAGE.split("\n## Threats and controls\n");
  const rows = section.split("\n").filter((line) => line.startsWith("| ") && !line.startsWith("| threat"));
  const named = rows.slice(1).map((row) => /\| \[([^\]]+)\]\(\.\.\/\1\): "(.+)" \|$/.exec(row)?.slice(1) ?? [row, ""]);

  it("are more than twenty, each with one test", () => {
    expect(rows.length - 1).toBeGreaterThan(20);
    expect(new Set(named.map(([path, name]) => `${path}: ${name}`)).size).toBe(rows.length - 1);
  });

  it.each(named)("have the test of %s: %s", (path = "", name = "") => {
    expect(existsSync(join(ROOT, path))).toBe(true);
    expect(name).not.toBe("");
    expect(read(path)).toContain(`it("${name}"`);
  });
});

describe("the roles of docs/security.md", { tags: "short" }, () => {
  it("are those of the service", () => {
    const [, section = ""] = /\n## Roles\n([\s\S]*?)\n## /.exec(PAGE) ?? [];
    expect([...section.matchAll(/^\| `(\w+)` \|/gm)].map(([, role]) => role).sort()).toEqual([...ROLES].sort());
  });
});

describe("the settings of docs/security.md", { tags: "short" }, () => {
  const lists = [...PAGE.matchAll(/<!-- settings -->\n\n```ini\n([\s\S]*?)```/g)].map(([, text = ""]) =>
    settingsOf(text),
  );
  const [keycloak = {}, open = {}, insecure = {}] = lists;

  it("start the service with the tokens of an issuer, and nothing in them is unknown", () => {
    const { config, warnings } = loadConfig(keycloak);
    expect(warnings).toEqual([]);
    expect(config).toMatchObject({ auth: "on", credentials: ["jwt", "api_key"], oidc: { clientId: "saga-console" } });
    expect(PAGE).toContain(`valid redirect URI \`${config.publicUrl}/auth/callback\``);
  });

  it("start it without access control on loopback, and beyond it behind a proxy, each with its warning", () => {
    expect(lists).toHaveLength(3);
    expect(loadConfig(open).warnings).toEqual([expect.stringMatching(/^SAGA_AUTH is off/)]);
    expect(loadConfig(insecure).warnings).toEqual([expect.stringMatching(/SAGA_INSECURE is on.* can do everything$/)]);
  });
});

/** `NAME=value`, a line each. */
const settingsOf = (text: string): Record<string, string> =>
  Object.fromEntries([...text.matchAll(/^([A-Z_]+)=(.*)$/gm)].map(([, name = "", value = ""]) => [name, value]));

describe("compose.yaml", { tags: "short" }, () => {
  it("starts the nodes with access control", () => {
    const folder = mkdtempSync(join(tmpdir(), "saga-compose-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, "key");
    writeFileSync(file, "k".repeat(32), { mode: 0o600 });
    const [anchor = ""] = read("compose.yaml").split("\nservices:\n");
    const given = [...anchor.matchAll(/^ {4}([A-Z_]+): (.*)$/gm)].map(([, name = "", value = ""]) => {
      const said = value.replace(/\$\{\w+:-([^}]*)\}/g, "$1").replace(/\$\{\w+:\?[^}]*\}/g, "secret");
      return [name, name.endsWith("_FILE") ? file : said.replaceAll('"', "")];
    });
    const { config, warnings } = loadConfig({ HOST: "0.0.0.0", ...Object.fromEntries(given) });
    expect(config).toMatchObject({ auth: "on", credentials: ["api_key"], publicUrl: "http://127.0.0.1:8080" });
    // It has no TLS: its ports are published on this machine only.
    expect(warnings).toEqual([expect.stringMatching(/^SAGA_AUTH is on without TLS/)]);
    const ports = [...read("compose.yaml").matchAll(/^ {6}- (\S+:\d+)$/gm)].map(([, port]) => port);
    expect(ports).toEqual(["8080:8080", "9090:9090", "8081:8080", "9091:9090"].map((port) => `127.0.0.1:${port}`));
  });

  it("has the command by the name that the image gives it", async () => {
    const bin = mkdtempSync(join(tmpdir(), "saga-bin-"));
    onTestFinished(() => rmSync(bin, { recursive: true }));
    const main = join(ROOT, "dist", "service", "cli", "main.js");
    chmodSync(main, 0o755);
    symlinkSync(main, join(bin, "saga"));
    const command = blocks
      .map(({ text }) => /docker compose exec saga-1 (saga key create) /.exec(text)?.[1])
      .find(Boolean);
    const [name = "", ...args] = command?.split(" ") ?? [];
    const { stdout } = await promisify(execFile)(join(bin, name), [...args, "--help"]);
    expect(stdout).toContain("--roles <role,...>");
  });
});

describe("docs/security.md", () => {
  it("leads from the first saga to a run under a tenant's key, and to a 403 that names a role", {
    tags: "long",
    timeout: 400_000,
  }, async () => {
    const [http, grpc] = await freePorts(2);
    const url = `http://127.0.0.1:${http}`;
    const ports = { HTTP_PORT: String(http), GRPC_PORT: String(grpc) };
    const place = { SAGA_DATA_DIR: dataDir, SAGA_API: url, SAGA_GRPC: `127.0.0.1:${grpc}` };
    // Its workflow and its service have no tenant.
    const readme = commandsOf("README.md");
    const textOf = (runner: string) => readme.find((block) => block.runner === runner)?.text ?? "";
    const before = run(textOf("service"), { ...ports, SAGA_DATA_DIR: dataDir });
    await comesAbout("npm start", before, () => fetch(`${url}/readyz`).then((response) => response.ok));
    const worker = run(textOf("worker"), place);
    await comesAbout("the worker", worker, () => worker.output().includes("worker connected"));
    const publish = run(textOf("shell").replaceAll("http://127.0.0.1:8080", url), {});
    await comesAbout("the first workflow", publish, () => publish.code() === 0);
    for (const started of [worker, before]) await started.stop();
    // The dependencies are there.
    const service = run(textsOf("service").join("").replace("npm ci\n", ""), { ...ports, SAGA_DATA_DIR: dataDir });
    await comesAbout("npm start", service, () => fetch(`${url}/readyz`).then((response) => response.ok));
    // A person sees it on the terminal.
    const connected = `until curl -fsS $API/workers -H "Authorization: Bearer $ADMIN" | grep -q '"service":"shop"'; do sleep 0.2; done`;
    const script = textsOf("shell")
      .join("")
      .replace(/worker\.js &\n/, `$&${connected}\n`);
    const shell = run(script.replaceAll("http://127.0.0.1:8080", url), place);
    await comesAbout("the end of the commands", shell, () => shell.code() === 0);
    expect(shell.output()).toMatch(/"state":"succeeded"/);
    expect(shell.output()).toMatch(/\{"error":"forbidden","message":"[^"]*operator/);
    expect((await fetch(`${url}/api/v1/sagas`)).status).toBe(401);
  });
});
