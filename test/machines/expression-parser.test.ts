// The parser of CEL against the library's own: what that one accepts becomes the same tree here. And against the clock: 8 KiB of anything
// is parsed in a small part of the time of a slow heartbeat.
// @module-tag both
import { parse as parseAsLibrary } from "@bufbuild/cel";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ExpressionSyntaxError } from "../../machines/expression/errors.js";
import { parse } from "../../machines/expression/parse.js";
import { computing } from "../harness/computing.js";
import { cases, firstSeed } from "../harness/long.js";

/** A tree without ids, and with its members in order. */
function plain(node: unknown): unknown {
  if (typeof node === "bigint") return `${node}n`;
  if (node instanceof Uint8Array) return [...node];
  if (Array.isArray(node)) return node.map(plain);
  if (typeof node !== "object" || node === null) return node;
  const members = Object.entries(node).filter(([name, member]) => name !== "id" && member !== undefined);
  return Object.fromEntries(members.map(([name, member]) => [name, plain(member)]));
}

function outcome(work: () => unknown): unknown {
  try {
    return plain(work());
  } catch {
    return "refused";
  }
}

const ours = (source: string) => outcome(() => parse(source).expr);
const theirs = (source: string) => outcome(() => parseAsLibrary(source).expr);

const SPACES = fc.constantFrom("", "", "", " ", "\n", " //c\n");
const ATOMS = ["a", "b.c", "1", "-1", "2u", "1.5", "-.5", "1e3", "0x1F", "-0x1F", '"s"', "'t'", "b'\\xff'", 'r"\\d"'];
const MORE_ATOMS = ["'\\u00e9\\n'", "'''q'q'''", "true", "false", "null", "nullable", "[]", "{}", "x", ".y", "'\\q'"];
const OPERATORS = ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", " in ", "&&", "||"];
const MACROS = ["map", "filter", "all", "exists", "exists_one", "existsOne"];

const { source } = fc.letrec<{ source: string }>((tie) => {
  const inner = tie("source");
  const joined = (...parts: readonly (string | fc.Arbitrary<string>)[]) =>
    fc.tuple(...parts.map((part) => (typeof part === "string" ? fc.constant(part) : part))).map((all) => all.join(""));
  const atom = fc.constantFrom(...ATOMS, ...MORE_ATOMS);
  return {
    source: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      atom,
      joined(inner, SPACES, fc.constantFrom(...OPERATORS), SPACES, inner),
      joined("(", SPACES, inner, SPACES, ")"),
      joined(fc.constantFrom("!", "-", "!!", "--", "- "), inner),
      joined(inner, "?", inner, ":", SPACES, inner),
      joined(inner, "[", inner, "]"),
      joined(inner, ".", SPACES, fc.constantFrom("f", "map", "size"), "(", inner, ",", inner, ")"),
      joined(inner, ".", fc.constantFrom(...MACROS), "(x,", inner, ")"),
      joined(inner, ".map(x,", inner, ",", inner, ")"),
      joined("has(", inner, ".f)"),
      joined("[", inner, SPACES, ",", inner, fc.constantFrom("", ","), "]"),
      joined("{", inner, ":", inner, fc.constantFrom("", ","), "}"),
      joined(fc.constantFrom("a.B", ".C", "a . D "), "{f:", inner, fc.constantFrom("", ",", ", g :1"), "}"),
    ),
  };
});
/** Most of these are not CEL. */
const broken = fc
  .tuple(source, fc.nat(), fc.constantFrom("", ".", ",", "(", ")", "]", "'", "1", "a", " ", "&", "?", ":", "in", "-"))
  .map(([text, at, piece]) => text.slice(0, at % (text.length + 1)) + piece + text.slice((at % (text.length + 1)) + 1));

/** The library reads a malformed escape as some other character, here it is text; and `truein x` as `true in x`, here it is a name. */
const READ_OTHERWISE = /\\[xu]|(?:true|false)in/;
/** The library does not know these with two names and takes them for calls. */
const TWO_NAMES = new Set(MACROS.filter((name) => name !== "filter" && name !== "map"));

/** Whether a tree has such a call. */
function hasTwoNames(tree: unknown): boolean {
  if (typeof tree !== "object" || tree === null) return false;
  const { function: name, target, args } = tree as { function?: string; target?: unknown; args?: unknown[] };
  const isOne = name !== undefined && TWO_NAMES.has(name) && target !== undefined && args?.length === 3;
  return isOne || Object.values(tree).some(hasTwoNames);
}

/** Where the parser says that the text is no CEL. 0 if it is: the parser may accept more than the library's. */
function refusal(text: string): number {
  try {
    parse(text);
    return 0;
  } catch (error) {
    expect(error, text).toBeInstanceOf(ExpressionSyntaxError);
    return (error as ExpressionSyntaxError).position ?? Number.NaN;
  }
}

const options = { numRuns: cases(150, 1_500), seed: firstSeed() };

/** CEL allows these, and the library's parser does not. */
const MORE: readonly (readonly [string, string])[] = [
  ["true_x", "true_y"],
  ["falsehood", "f"],
  ["f( )", "f()"],
  ["{ , }", "{}"],
  ["a // the end", "a"],
  ["a // one\n // two\n + 1", "a + 1"],
];

type Tree = ReturnType<typeof parse>["expr"];

function written({ exprKind }: Tree): string {
  if (exprKind.case === "identExpr") return exprKind.value.name;
  const constant = exprKind.case === "constExpr" ? exprKind.value.constantKind : undefined;
  return constant?.case === "stringValue" ? `'${constant.value}'` : String(exprKind.case);
}

function optionalPart({ exprKind }: Tree): unknown {
  if (exprKind.case === "callExpr") {
    const { function: name, args } = exprKind.value;
    return { function: name, args: args.map(written) };
  }
  if (exprKind.case === "listExpr") {
    const { elements, optionalIndices } = exprKind.value;
    return { elements: elements.map(written), optionalIndices };
  }
  if (exprKind.case !== "structExpr") return exprKind.case;
  const entries = exprKind.value.entries.map(({ keyKind, value, optionalEntry }) => [
    typeof keyKind.value === "string" ? keyKind.value : written(keyKind.value as Tree),
    written(value as Tree),
    optionalEntry,
  ]);
  return { entries };
}

describe("the parser of CEL", () => {
  it("makes the same tree as the library's", () => {
    fc.assert(
      fc.property(source, (text) => {
        const expected = theirs(text);
        if (expected !== "refused") expect(ours(text), text).toEqual(expected);
      }),
      options,
    );
  });

  it("refuses what is no CEL, with an error that says where", () => {
    fc.assert(
      fc.property(broken, (text) => {
        const expected = theirs(text);
        if (hasTwoNames(expected)) return;
        if (expected !== "refused" && !READ_OTHERWISE.test(text)) expect(ours(text), text).toEqual(expected);
        else expect(refusal(text), text).toBeLessThanOrEqual(text.length);
      }),
      options,
    );
  });

  it.each(MORE)("%j is CEL too", (text, as) => {
    expect(theirs(text)).toBe("refused");
    expect(JSON.stringify(ours(text)).replaceAll("true_x", "true_y").replaceAll("falsehood", "f")).toBe(
      JSON.stringify(ours(as)),
    );
  });

  /** What the library's parser does not know, as CEL's specification writes it: the calls, lists and maps that it stands for. */
  it.each([
    ["a.?b", { function: "_?._", args: ["a", "'b'"] }],
    ["a . ? b", undefined],
    ["a[?b]", { function: "_[?_]", args: ["a", "b"] }],
    ["a[ ? b]", { function: "_[?_]", args: ["a", "b"] }],
    ["[?a, b, ?c]", { elements: ["a", "b", "c"], optionalIndices: [0, 2] }],
    [
      "{?'k': a, 'l': b}",
      {
        entries: [
          ["'k'", "a", true],
          ["'l'", "b", false],
        ],
      },
    ],
    ["T{?f: a}", { entries: [["f", "a", true]] }],
  ])("%j is an optional part", (text, expected) => {
    if (expected === undefined) expect(() => parse(text)).toThrow(ExpressionSyntaxError);
    else expect(optionalPart(parse(text).expr)).toEqual(expected);
  });

  it.each([
    ["a b", 'unexpected "b"', 2],
    ["a(", "unexpected end, a value is expected", 2],
    ["[1, 2", 'unexpected end, "]" is expected', 5],
    ["a.", "unexpected end, a name is expected", 2],
    ["a ? b", 'unexpected end, ":" is expected', 5],
    ["a.in", '"in" is a reserved word of CEL', 2],
    ["for + 1", '"for" is a reserved word of CEL', 0],
    ["'a", "a quoted text is not closed", 0],
    ["f(1,)", 'unexpected ","', 3],
  ])("%j: %s", (text, message, position) => {
    expect(() => parse(text)).toThrow(expect.objectContaining({ message, position }));
  });

  it.each([
    ["numbers", `[${"1,".repeat(4_000)}1]`],
    ["names", `[${"a.b,".repeat(2_000)}1]`],
    ["conditions", `${"a ? b : ".repeat(1_000)} 1`],
    ["operators", `1${" + 1".repeat(2_000)}`],
    ["members", `a${".a".repeat(4_000)}`],
    ["escapes", `'${"\\x41".repeat(2_000)}'`],
    ["brackets", `${"(".repeat(100)}1${")".repeat(100)}`],
    ["signs", `${"-".repeat(8_000)}1`],
    ["comments", `${"//\n".repeat(2_700)}1`],
    ["white space", `${" ".repeat(8_000)}1`],
  ])("8 KiB of %s take no time to speak of", (_, text) => {
    // Milliseconds; the library's parser took up to half a second.
    computing(
      () => parse(text),
      (ms) => expect(ms).toBeLessThan(250),
    );
  });
});
