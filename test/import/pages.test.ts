// What the pages say of public documents is what corpus.txt has, which corpus.test.ts makes.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const TABLE = readFileSync(join(import.meta.dirname, "corpus.txt"), "utf8");
const PAGES = join(import.meta.dirname, "../../docs");

describe("the pages", () => {
  it.each([
    ["asl", "from-step-functions.md"],
    ["conductor", "from-conductor.md"],
  ])("say how many public documents of %s are imported (%s)", (dialect, page) => {
    const lines = TABLE.split("\n").filter((line) => line.split(" ")[1] === dialect);
    const imported = lines.filter((line) => line.startsWith("imported")).length;
    const runs = lines.reduce((sum, line) => sum + Number(/\| (\d+) runs$/.exec(line)?.[1] ?? 0), 0);
    const text = readFileSync(join(PAGES, page), "utf8");
    expect(text).toContain(`Of ${lines.length} public documents, ${imported} are imported`);
    expect(text).toContain(`${runs.toLocaleString("en")} rehearsals`);
  });
});
