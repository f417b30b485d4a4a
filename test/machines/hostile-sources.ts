// Expressions, patterns and templates that were written to stall a node, grouped by the feature that they abuse. Add new ones here.
import type { Scope } from "../../machines/expression/index.js";
import type { Json } from "../../machines/values/json.js";

const list = Array.from({ length: 10_000 }, (_, index) => ({ price: index % 20, name: `n${index}` }));
const keys = Object.fromEntries(list.map(({ name }, index) => [name, index]));
const wide = Object.fromEntries(Array.from({ length: 30_000 }, (_, index) => [`key${(index * 7919) % 30_011}`, index]));
const bush = (depth: number): Json => (depth === 0 ? 1 : [bush(depth - 1), { b: bush(depth - 1) }]);
const deep = bush(14);

/** Variables that are as large as those of a run may be. */
export const LARGE: Scope = {
  vars: {
    list,
    keys,
    wide,
    deep,
    big: "a".repeat(1 << 20),
    emoji: "😀".repeat(1 << 19),
    digits: "7".repeat(500),
    n: 1,
  },
};

const MACROS = ["all", "exists", "exists_one", "filter", "map"];
const holds = (macro: string) => (macro === "exists" ? "y.price > 99" : "y.price < 99");

/** Each macro inside each other: a hundred million rounds. */
const nested = MACROS.flatMap((outer) =>
  MACROS.map((inner) => {
    const body = `vars.list.${inner}(y, ${holds(inner)})`;
    const collects = inner === "map" || inner === "filter";
    const condition = outer === "exists" ? "false" : "true";
    const test = collects ? `${body}.size() >= 0 && ${condition}` : `(${body} || true) && ${condition}`;
    return `vars.list.${outer}(x, ${outer === "map" ? body : test})`;
  }),
);

const absorbing = [
  "vars.list.all(x, vars.list.all(y, vars.list.all(z, true)))",
  "vars.list.all(x, vars.list.all(y, true) || true) || true",
  "true || vars.list.all(x, vars.list.all(y, true)) ? vars.list.all(x, vars.list.all(y, true)) || true : true",
  "[1, 2, 3].exists(i, vars.list.all(x, vars.list.all(y, true))) || vars.list.all(x, vars.list.all(y, true))",
  `vars.list.all(x, ${"x.missing || ".repeat(500)} true)`,
  `vars.list.all(x, ${"has(x.missing) || ".repeat(440)} true)`,
  `vars.list.all(x, ${"(1 / 0 == 1) || ".repeat(300)} true)`,
  `vars.list.all(x, ${"x.name.nothing == 1 || ".repeat(340)} true)`,
  `vars.list.all(x, [${"x.price, ".repeat(800)} 1].size() > 0)`,
  `vars.list.all(x, {${Array.from({ length: 400 }, (_, n) => `'k${n}': x`).join(", ")}}.size() > 0)`,
  "vars.keys.all(x, vars.keys.all(y, vars.keys[x] < vars.keys[y] || true))",
  "vars.keys.exists(k, vars.list.exists(x, x.name == k + '!'))",
];

const comparing = [
  "vars.list.all(x, vars.list == vars.list.map(y, y))",
  "vars.list.all(x, {'price': 50} in vars.list || true)",
  "vars.list.all(x, vars.list.map(y, y.price) == vars.list.map(y, y.price))",
  "vars.list.all(x, vars == {'list': vars.list} || true)",
  "vars.list.map(x, x in vars.list).size()",
  "vars.list.all(x, vars.keys == vars.keys.map(k, k) || true)",
  "vars.deep == [vars.deep].map(d, d)[0] && vars.list.all(x, vars.deep != [[vars.deep]])",
  "[vars.list].map(a, [a, a]).map(a, [a, a]).map(a, [a, a]) == [1] || vars.list.all(x, vars.list != [x])",
];

const growing = [
  "vars.list.map(x, vars)",
  "vars.list.map(x, vars.big)",
  "vars.list.map(x, vars.list)",
  "vars.list.map(x, {'all': vars.list})",
  "vars.list.map(x, vars.list.map(y, 1)).size()",
  "vars.list.map(x, vars.list + vars.list).size()",
  "vars.list.map(x, string(x.price) + vars.big).size()",
  `['0123456789']${".map(a, a + a)".repeat(40)}`,
  `[b'0123456789']${".map(a, a + a)".repeat(40)}`,
  `[1]${".map(a, [a, a])".repeat(60)}`,
  `[1]${".map(a, {'l': a, 'r': a})".repeat(60)}`,
  `[[1]]${".map(a, a + a)".repeat(60)}.size()`,
  `[vars.deep]${".map(a, [a, a])".repeat(30)}`,
  `[vars.big]${".map(a, [a, a])".repeat(12)}`,
];

/** A text of a mebibyte, ten thousand times. */
const texts = [
  ...["contains(vars.big + 'b')", "startsWith(vars.big + 'b')", "endsWith('b' + vars.big)", "matches('b$')"],
  ...["indexOf('b')", "lastIndexOf('b')", "replace('a', 'b') == ''", "replace('', 'b') == ''", "split('').size() == 0"],
  ...["split('a').size() == 0", "lowerAscii() == ''", "upperAscii() == ''", "trim() == ''", "size() == 0"],
  ...["substring(1) == ''", "charAt(1000000) == 'b'", "split(',').join('-') == ''"],
].map(
  (call) =>
    `vars.list.exists(x, vars.big.${call.includes("indexOf") || call.includes("lastIndexOf") ? `${call} == 1` : call})`,
);

const quadratic = [
  "vars.big.contains('b' + vars.big)",
  "vars.big.lastIndexOf('b' + vars.big)",
  "vars.big.indexOf(vars.big.substring(1) + 'b')",
  "vars.big.replace('', 'xx')",
  "vars.big.replace('a', 'aaaaaaaaaa')",
  "vars.big.split('').map(c, vars.big.split(''))",
  "vars.big.split('').map(c, c + vars.big)",
  "vars.list.map(x, '%s'.format([vars.list]))",
  "vars.list.map(x, '%d %s'.format([1, vars.keys]))",
  "vars.list.all(x, strings.quote(vars.big) != '')",
  "vars.list.map(x, x.name).join(vars.big)",
];

/** What CEL's extensions read, make and sort. */
const extended = [
  "'%s'.format([vars.wide])",
  "'%s'.format([vars.deep]) == '' || vars.list.map(x, '%s'.format([vars.wide]))",
  "vars.list.all(x, '%.100f'.format([x.price / 7.0]) != '' && '%x'.format([vars.big]) != '')",
  "lists.range(9223372036854775807)",
  "lists.range(100000).map(i, -i).sort() == lists.range(100000).sort()",
  "vars.list.all(x, vars.list.sortBy(y, y.name).size() > 0)",
  "vars.list.all(x, vars.list.distinct().size() > 0)",
  "vars.wide.map(k, k).sort() == vars.wide.map(k, k).distinct().sort()",
  "vars.list.map(x, vars.list).flatten(100).size()",
  "vars.deep.flatten(100).distinct()",
  "[vars.deep].map(d, [d, d]).map(d, [d, d]).flatten(100).size()",
  "vars.list.all(x, sets.equivalent(vars.list, vars.list.map(y, y)))",
  "vars.wide.transformMap(k, v, vars.wide.transformMap(l, w, w))",
  "vars.list.transformMapEntry(i, x, vars.keys)",
  "vars.list.all(x, vars.list.map(y, y.?name.optMap(n, n + n).orValue('')).max() != '')",
  "vars.list.all(x, base64.encode(vars.big) != '' && size(base64.decode(vars.big)) > 0)",
  "cel.bind(l, vars.list + vars.list, l.map(x, l.map(y, l)))",
];

/** A text of half a million pairs of surrogates. */
const pairs = [
  "charAt(500000) == ''",
  "substring(1, 500000) == ''",
  "indexOf('b', 500000) == 1",
  "lastIndexOf('😀😀') == 1",
]
  .concat(["size() == 1", "reverse() == ''", "split('').size() == 0", "trim() == ''"])
  .map((call) => `vars.list.exists(x, vars.emoji.${call})`)
  .concat("vars.list.exists(x, vars.emoji < vars.emoji + 'b' && false)");

const decimals = [
  "d * d",
  "d / 7",
  "decimal('1e-900') / d",
  "d % decimal('1e-400')",
  "d.round(-499)",
  "d + decimal('1e-400')",
]
  .map((work) => `cel.bind(d, decimal(vars.digits), lists.range(100000).all(i, ${work} != 1))`)
  .concat("cel.bind(d, decimal(vars.digits), lists.range(100000).all(i, string(d) != '' && double(d) > 0))")
  .concat("lists.range(50).map(i, decimal(vars.digits)).sort().map(d, d * d * d)", "decimal(vars.big)");

const converting = [
  ...["int(vars.big + '1')", "double(vars.big)", "uint(vars.big)", "timestamp(vars.big)", "duration(vars.big + 's')"],
  ...[
    "int('1' + '0'.replace('0', '0000000000'))",
    "duration('1' + vars.big)",
    "bytes(vars.list.map(x, x.name).join('')) == b''",
  ],
  "vars.list.all(x, bytes(vars.big) == b'')",
  "vars.list.all(x, timestamp(x.price).getHours('Europe/Berlin') == 1 || true)",
  "vars.list.all(x, timestamp(x.price).getHours(vars.big) == 1)",
  "vars.list.all(x, google.protobuf.ListValue{values: vars.list} != null)",
  "vars.list.all(x, google.protobuf.Struct{fields: vars.keys} != null)",
  "vars.list.all(x, google.protobuf.Value{list_value: vars.list} != null)",
];

/** Regular expressions that take exponential or quadratic time with backtracking. */
const PATTERNS = [
  ...["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(a*)*b", "(.*)*b", "(.*a){20}b", "^(([a-z])+.)+[A-Z]([a-z])+$", "(x+x+)+y"],
  ...[
    "(a?){500}a{500}",
    "a{1,1000}b",
    "(a{1,100}){1,10}",
    "((a{0,30}){0,30})",
    "(a|b)*c(a|b){200}",
    "\\\\w+\\\\s*\\\\w+b",
  ],
  ...[
    "[a-z]*[a-z]*[a-z]*[a-z]*b",
    "(a|b|c|d|e|f)*z",
    "^(\\\\w+\\\\.)*b",
    "(((((((a*)*)*)*)*)*)*)b",
    "\\\\pL+b",
    "(?i)(A|a)+b",
  ],
];
const patterns = PATTERNS.flatMap((pattern) => [
  `vars.big.matches('${pattern}')`,
  `vars.list.exists(x, vars.big.matches('${pattern}') && false)`,
]);

/** Sources that do not compile, and must be refused quickly. */
export const UNCOMPILED: readonly (readonly [string, string])[] = [
  ["too long", `'${"a".repeat(17_000)}'`],
  ["too deep in brackets", `${"(".repeat(150)}1${")".repeat(150)}`],
  ["too deep in lists", `${"[".repeat(150)}${"]".repeat(150)}`],
  ["too deep in operators", `1${" + 1".repeat(1000)}`],
  ["too deep in members", `vars${".a".repeat(1000)}`],
  ["too deep in conditions", `${"a ? b : ".repeat(1000)} 1`],
  ["too deep in loops", `${"[1].all(x, ".repeat(99)}true${")".repeat(99)}.x${".y".repeat(300)}`],
  ["brackets only", "(".repeat(8_000)],
  ["quotes only", `${"'''".repeat(2700)}'`],
  ["too many nodes", `[${"1,".repeat(4000)}1]`],
];

export const EXPRESSIONS: Readonly<Record<string, readonly string[]>> = {
  nested,
  absorbing,
  comparing,
  growing,
  texts,
  quadratic,
  converting,
  extended,
  pairs,
  decimals,
  patterns,
};

const loop = "vars.list.all(x, vars.list.all(y, true))";
const honest = "vars.list.all(x, x.price >= 0 && x.name != '')";
const parts = (count: number, source: string) => Array.from({ length: count }, () => `\${${source}}`);

export const TEMPLATES: Readonly<Record<string, Json>> = {
  "a loop in each of a thousand parts": parts(1000, loop),
  "what is honest alone, a thousand times": parts(1000, honest),
  "the same in one text": parts(1000, honest).join(" "),
  "the same, deep": parts(90, honest).reduce<Json>((inner, part) => ({ part, inner }), "end"),
  "the same as members": Object.fromEntries(parts(1000, honest).map((part, index) => [`m${index}`, part])),
  "all variables in each of a thousand parts": parts(1000, "vars"),
  "a mebibyte in each of a thousand parts": parts(1000, "vars.big"),
  "a mebibyte a thousand times in one text": parts(1000, "vars.big").join(""),
  "a list written into a text, a thousand times": parts(1000, "vars.list").join(","),
  "a value that doubles with each level": parts(200, "vars.deep"),
  "a pattern in each part": parts(1000, "vars.big.matches('^(a+)+$')"),
  "an error in each part, all absorbed": parts(1000, "vars.missing == 1 || true"),
};
