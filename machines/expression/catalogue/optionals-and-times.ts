// The functions of optional values and of times.
import { chapter } from "./chapter.js";

export const OPTIONALS = chapter(
  "Optional values",
  "`a.?b` and `a[?b]` are optional: the value if the member is there, otherwise none. So are members of an optional value: `inputs.?order.note`. `[?a]` and `{?'k': a}` leave the element out if `a` is none. As a result, an optional value is its value, or null; as a condition, none is false. A member of null is an error, also behind `.?`: `inputs.?customer.optFlatMap(c, optional.ofNonZeroValue(c)).name` takes a customer that is null for one that is missing.",
  [
    ["orValue", "optional.orValue(other)", "The value, or the other one.", "{}.?note.orValue('')", ""],
    ["or", "optional.or(optional)", "The first that has a value.", "{'b': 2}.?a.or({'b': 2}.?b).value()", 2],
    ["hasValue", "optional.hasValue()", "Whether there is a value.", "{'a': null}.?a.hasValue()", true],
    ["value", "optional.value()", "The value. None is an error.", "['x'][?0].value()", "x"],
    [
      "optMap",
      "optional.optMap(x, value)",
      "The value made from it, if there is one.",
      "{'n': 2}.?n.optMap(n, n * 2).orValue(0)",
      4,
    ],
    [
      "optFlatMap",
      "optional.optFlatMap(x, optional)",
      "The optional value made from it, if there is one.",
      "{'a': {}}.?a.optFlatMap(a, a.?b).hasValue()",
      false,
    ],
    ["optional.of", "optional.of(x)", "An optional value with a value.", "{?'a': optional.of(1)}", { a: 1 }],
    ["optional.none", "optional.none()", "An optional value without one.", "[?optional.none(), 2]", [2]],
    [
      "optional.ofNonZeroValue",
      "optional.ofNonZeroValue(x)",
      "None for null, false, zero, and what is empty.",
      "optional.ofNonZeroValue('').orValue('-')",
      "-",
    ],
    ["unwrapOpt", "list.unwrapOpt()", "The values of those that have one.", "[{'a': 1}.?a, {}.?a].unwrapOpt()", [1]],
    [
      "optional.unwrap",
      "optional.unwrap(list)",
      "The values of the items that have one.",
      "optional.unwrap([optional.of(1), optional.none()])",
      [1],
    ],
  ],
);

export const TIMES = chapter(
  "Times",
  "A timestamp plus or minus a duration is a timestamp, the difference of two is a duration. As a result, a timestamp is RFC 3339 and a duration its milliseconds. The fields of a timestamp are those of UTC, or of the zone that is given, such as `Europe/Berlin` or `+05:30`.",
  [
    [
      "timestamp",
      "timestamp(x)",
      "Of RFC 3339, or of seconds since 1970.",
      "timestamp('2026-11-21T09:30:00Z') + duration('1h')",
      "2026-11-21T10:30:00.000Z",
    ],
    [
      "duration",
      "duration(text)",
      "Of hours, minutes, seconds and so on: `h`, `m`, `s`, `ms`, `us`, `ns`.",
      "duration('1h30m')",
      5_400_000,
    ],
    ["getFullYear", "time.getFullYear([zone])", "The year.", "timestamp('2026-11-21T09:30:00Z').getFullYear()", 2026],
    ["getMonth", "time.getMonth([zone])", "The month, from 0.", "timestamp('2026-11-21T09:30:00Z').getMonth()", 10],
    [
      "getDate",
      "time.getDate([zone])",
      "The day of the month, from 1.",
      "timestamp('2026-11-21T09:30:00Z').getDate()",
      21,
    ],
    [
      "getDayOfMonth",
      "time.getDayOfMonth([zone])",
      "The day of the month, from 0.",
      "timestamp('2026-11-21T09:30:00Z').getDayOfMonth()",
      20,
    ],
    [
      "getDayOfWeek",
      "time.getDayOfWeek([zone])",
      "The day of the week, from 0, a Sunday.",
      "timestamp('2026-11-21T09:30:00Z').getDayOfWeek()",
      6,
    ],
    [
      "getDayOfYear",
      "time.getDayOfYear([zone])",
      "The day of the year, from 0.",
      "timestamp('2026-11-21T09:30:00Z').getDayOfYear()",
      324,
    ],
    [
      "getHours",
      "time.getHours([zone]), duration.getHours()",
      "The hour; of a duration, all its hours.",
      "timestamp('2026-11-21T09:30:00Z').getHours('Europe/Berlin')",
      10,
    ],
    [
      "getMinutes",
      "time.getMinutes([zone]), duration.getMinutes()",
      "The minute; of a duration, all its minutes.",
      "duration('90m').getMinutes()",
      90,
    ],
    [
      "getSeconds",
      "time.getSeconds([zone]), duration.getSeconds()",
      "The second; of a duration, all its seconds.",
      "duration('90m').getSeconds()",
      5_400,
    ],
    [
      "getMilliseconds",
      "time.getMilliseconds([zone]), duration.getMilliseconds()",
      "The milliseconds of the second.",
      "duration('1.5s').getMilliseconds()",
      500,
    ],
  ],
);
