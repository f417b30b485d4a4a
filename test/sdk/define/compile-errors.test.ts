// The mistakes of compile-errors.ts, one by one: each gets an error, and the one that an author needs. That there is some error at all is
// checked with all sources, by their `@ts-expect-error`.
// @module-tag long
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { compile } from "./compiler.js";

const read = (name: string) => readFileSync(join(import.meta.dirname, name), "utf8");
const MARK = "@ts-expect-error ";

describe("a mistake in a definition", () => {
  it("is an error of the compiler that says what is wrong: at least 40 of them", async () => {
    const source = read("compile-errors.ts");
    const told = await compile({
      "compile-errors.ts": source.replaceAll(MARK, "wanted: "),
      "order.ts": read("order.ts"),
    });
    const errors = told.split(/^(?=\S+\(\d+,\d+\): error)/m).map((text) => ({
      line: Number(/\((\d+),\d+\): error/.exec(text)?.[1] ?? 0),
      text,
    }));
    const wanted = source
      .split("\n")
      .flatMap((line, index) => (line.includes(MARK) ? [{ line: index + 2, message: line.split(MARK)[1] ?? "" }] : []));
    const silent = wanted.filter(
      ({ line, message }) => !errors.some((error) => error.line === line && error.text.includes(message)),
    );
    const shown = silent.map(({ line, message }) => ({
      line,
      message,
      told: errors.filter((error) => error.line === line),
    }));
    expect(shown).toEqual([]);
    expect(wanted.length).toBeGreaterThanOrEqual(40);
    console.log(`${wanted.length} mistakes, each with its message`);
  });
});
