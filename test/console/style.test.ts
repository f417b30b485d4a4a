// The styles of the console, read from its files. All pages have one stylesheet, so a class of one page would reach the others.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";

const FOLDER = join(packageRoot(), "src", "console");

/** React Flow gives these to its panels and handles. */
const OF_LIBRARIES = ["top", "bottom", "left", "right", "center", "source", "target", "selected", "animated"];

/** What all pages share: other files may refine its classes. */
const SHARED = "style.css";

function selectorsOf(file: string): readonly string[] {
  const rules = readFileSync(join(FOLDER, file), "utf8").replace(/\/\*[\s\S]*?\*\//g, "");
  return [...rules.matchAll(/([^{}]+)\{/g)].flatMap(([, selector = ""]) => selector.split(","));
}

/** The classes with which the selectors of a file begin. */
function classesOf(file: string): ReadonlySet<string> {
  return new Set(selectorsOf(file).flatMap((selector) => /^\s*\.([\w-]+)/.exec(selector)?.[1] ?? []));
}

/** The classes that the selectors of a file name anywhere. */
function namedIn(file: string): ReadonlySet<string> {
  return new Set(
    selectorsOf(file).flatMap((selector) => [...selector.matchAll(/\.([a-z][\w-]*)/gi)].map(([, name]) => name ?? "")),
  );
}

const files = readdirSync(FOLDER, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".css"));

describe("the stylesheet", () => {
  it("has each class in one file only, and none that a library uses for parts of its own", () => {
    expect(files.length).toBeGreaterThan(5);
    const found = new Map<string, string[]>();
    for (const file of files) for (const name of classesOf(file)) found.set(name, [...(found.get(name) ?? []), file]);
    expect([...found].filter(([name, places]) => places.length > 1 || OF_LIBRARIES.includes(name))).toEqual([]);
  });

  it("names no class of one page in the file of another", () => {
    const pages = files.filter((file) => file !== SHARED);
    const owners = new Map(pages.flatMap((file) => [...classesOf(file)].map((name) => [name, file] as const)));
    const strangers = pages.flatMap((file) =>
      [...namedIn(file)].filter((name) => (owners.get(name) ?? file) !== file).map((name) => `.${name} in ${file}`),
    );
    expect(strangers).toEqual([]);
  });
});
