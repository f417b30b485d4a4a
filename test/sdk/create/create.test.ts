// `npm create @saga-orchestrator`: which project it writes, and what it refuses. That the project works is shown with the packed packages (test/packages/newcomer.test.ts).
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { create as createFrom } from "../../../src/sdk/create/create.js";

const create = (args: readonly string[], cwd: string) => createFrom(args, cwd, join("src", "sdk", "create"));

const home = mkdtempSync(join(tmpdir(), "saga-create-"));
afterAll(() => rmSync(home, { recursive: true }));
const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
const FILES = [
  ...[".gitignore", "README.md", "actions.ts", "order.test.ts", "package.json", "saga.config.json", "start-one.ts"],
  ...["tsconfig.json", "worker.ts", "workflows/order.ts"],
];

const filesIn = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();

describe("npm create @saga-orchestrator", () => {
  it("writes a project of the folder's name, with our packages in its own version", () => {
    const { code, stdout, stderr } = create(["shop"], home);
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(
      /^Wrote the project shop:\n[\s\S]*\nNext:\n {2}cd shop\n {2}npm install\n {2}npm run dev\n$/,
    );
    const folder = join(home, "shop");
    expect(filesIn(folder)).toEqual(FILES);
    const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    expect(manifest).toMatchObject({ name: "shop", private: true, type: "module", scripts: { dev: "saga dev" } });
    const ours = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies }).filter(([name]) =>
      name.startsWith("@saga-"),
    );
    expect(ours.map(([, of]) => of)).toEqual([version, version, version, version]);
  });

  it("asks for the versions of other packages that are tested here", () => {
    const own = JSON.parse(readFileSync("package.json", "utf8"));
    const tested = { ...own.dependencies, ...own.devDependencies, ...own.optionalDependencies };
    const manifest = JSON.parse(readFileSync("src/sdk/create/template/_package.json", "utf8"));
    const others = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies }).filter(
      ([name]) => !name.startsWith("@saga-"),
    );
    expect(others).toHaveLength(4);
    expect(others.map(([name, of]) => [name, String(of).replace("^", "")])).toEqual(
      others.map(([name]) => [name, tested[name]]),
    );
  });

  it("takes our packages from the tarballs in a folder, by relative paths, or writes nothing where one is missing", () => {
    const packages = join(home, "packed here", "packages");
    mkdirSync(packages, { recursive: true });
    const make = (name: string) => writeFileSync(join(packages, `saga-orchestrator-${name}-${version}.tgz`), "");
    for (const name of ["client", "define", "worker"]) make(name);
    const refused = create(["of-tarballs", "--packages", "packed here/packages"], home);
    expect(refused).toMatchObject({ code: 2, stdout: "" });
    expect(refused.stderr).toContain(`there is no ${join(packages, `saga-orchestrator-server-${version}.tgz`)}`);
    expect(existsSync(join(home, "of-tarballs"))).toBe(false);
    make("server");
    expect(create(["of-tarballs", "--packages=packed here/packages"], home).code).toBe(0);
    const { dependencies } = JSON.parse(readFileSync(join(home, "of-tarballs", "package.json"), "utf8"));
    expect(dependencies).toMatchObject({
      "@saga-orchestrator/client": `file:../packed here/packages/saga-orchestrator-client-${version}.tgz`,
      typebox: expect.stringMatching(/^\^\d/),
    });
    expect(create(["c", "--packages"], home).stderr).toBe("create: --packages needs a folder: see --help\n");
  });

  it("writes into the folder where it is, if that is empty but for a repository", () => {
    const folder = join(home, "here");
    mkdirSync(join(folder, ".git"), { recursive: true });
    const { code, stdout } = create(["."], folder);
    expect([code, stdout.includes("cd ")]).toEqual([0, false]);
    expect(filesIn(folder)).toEqual(FILES);
  });

  it("leaves a folder that is not empty as it is, and says what to do", () => {
    const folder = join(home, "full");
    mkdirSync(folder);
    writeFileSync(join(folder, "notes 🙂.txt"), "");
    expect(create(["full"], home)).toEqual({
      ...{ code: 2, stdout: "" },
      stderr:
        "create: full is not empty (it has notes 🙂.txt): choose another folder, or empty this one; nothing was written\n",
    });
    expect(readdirSync(folder)).toEqual(["notes 🙂.txt"]);
    expect(create(["full/notes 🙂.txt", "--name", "a"], home).stderr).toMatch(/is a file: choose another folder/);
  });

  it.each(["My Shop", "Größe", ".hidden", "_a", "node_modules", "a".repeat(215)])(
    "says that %j is no name of a package",
    (name) => {
      const { code, stderr } = create([name], home);
      expect(code).toBe(2);
      expect(stderr).toMatch(/is no name of a package: .*choose another folder, or give a name with --name\n$/);
      expect(existsSync(join(home, name))).toBe(false);
    },
  );

  it("takes a name for a folder that has none", () => {
    const { code, stdout } = create(["My Shop's", "--name=@acme/my-shop"], home);
    expect(code).toBe(0);
    expect(stdout).toContain("cd 'My Shop'\\''s'");
    expect(JSON.parse(readFileSync(join(home, "My Shop's", "package.json"), "utf8")).name).toBe("@acme/my-shop");
  });

  it("has a help and a version, and refuses what it does not know", () => {
    expect(create(["-h"], home).stdout).toMatch(/^Usage: npm create @saga-orchestrator \[folder\]\n/);
    expect(create(["--version"], home).stdout).toBe(`${version}\n`);
    expect(create(["--colour"], home)).toMatchObject({
      code: 2,
      stderr: "create: there is no option --colour: see --help\n",
    });
    expect(create(["a", "b"], home).stderr).toMatch(/there are two: a and b\n$/);
    expect(create(["--name"], home).stderr).toMatch(/--name needs a name/);
    expect(existsSync(join(home, "a"))).toBe(false);
  });
});
