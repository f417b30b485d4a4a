// Conversions, and the functions of numbers.
import { chapter } from "./chapter.js";

export const CONVERSIONS = chapter(
  "Conversions and types",
  "JSON has one kind of number, the double. CEL also has ints, uints and decimals. A whole double or decimal serves wherever an int is needed.",
  [
    [
      "int",
      "int(x)",
      "A number without its fraction, a text, or the seconds of a timestamp, as an int.",
      "int('42') + int(7.9)",
      49,
    ],
    ["uint", "uint(x)", "As an int that is not negative.", "uint('7')", 7],
    ["double", "double(x)", "As a double: the number of JSON.", 'double(decimal("19.90"))', 19.9],
    ["string", "string(x)", "As a text.", "string(5) + '/' + string(true)", "5/true"],
    ["bool", "bool(x)", "Of the texts `true` and `false`.", "bool('true')", true],
    ["bytes", "bytes(text)", "The UTF-8 of a text. As a result, bytes are base64.", "size(bytes('é'))", 2],
    [
      "type",
      "type(x)",
      "The type, to compare with `int`, `uint`, `double`, `decimal`, `string`, `bytes`, `bool`, `list`, `map`, `null_type` or `optional_type`.",
      "type('x') == string",
      true,
    ],
    ["dyn", "dyn(x)", "The value itself.", "dyn(1)", 1],
  ],
);

export const DECIMALS = chapter(
  "Decimals",
  "Exact decimal numbers of at most 1,000 digits; see [money](money.md). `+ - * / %` and comparisons take a decimal and any other number, and the result is a decimal. As a result, a decimal is its text.",
  [
    [
      "decimal",
      "decimal(x)",
      "Of a text, an int or a double. A fraction is taken by its shortest text, so that 19.99 is 19.99; a whole double is the int that it equals.",
      'decimal("19.99") * 3',
      "59.97",
    ],
    [
      "round",
      "number.round([places[, mode]])",
      "A decimal with so many decimal places, by default 0, of any number. The modes are `half_up` (the default: a half goes away from zero), `half_even`, `half_down`, `up`, `down`, `ceiling` and `floor`.",
      'decimal("2.125").round(2) + decimal("2.125").round(2, "half_even")',
      "4.25",
    ],
    ["scale", "number.scale()", "The number of decimal places.", 'decimal("1.50").scale()', 2],
  ],
);

export const MATH = chapter(
  "Numbers",
  "The names are those of cel-go's extension `math`. `ceil`, `floor`, `round` and `trunc` take doubles and decimals: ints are whole.",
  [
    [
      "math.greatest",
      "math.greatest(x, ...), math.greatest(list)",
      "The greatest number.",
      "math.greatest(1, 2.5, 2)",
      2.5,
    ],
    ["math.least", "math.least(x, ...), math.least(list)", "The least number.", "math.least([3, 1.5, 2])", 1.5],
    ["math.ceil", "math.ceil(x)", "The next whole number above.", "math.ceil(1.2)", 2],
    ["math.floor", "math.floor(x)", "The next whole number below.", "math.floor(-1.2)", -2],
    ["math.round", "math.round(x)", "The nearest whole number; a half goes away from zero.", "math.round(-1.5)", -2],
    ["math.trunc", "math.trunc(x)", "Without the fraction.", "math.trunc(-1.7)", -1],
    ["math.abs", "math.abs(x)", "Without the sign.", "math.abs(-11)", 11],
    ["math.sign", "math.sign(x)", "-1, 0 or 1.", "math.sign(-32.0)", -1],
    ["math.sqrt", "math.sqrt(x)", "The square root, as a double.", "math.sqrt(16)", 4],
    ["math.isNaN", "math.isNaN(x)", "Whether it is no number, such as 0.0 / 0.0.", "math.isNaN(0.0 / 0.0)", true],
    ["math.isInf", "math.isInf(x)", "Whether it is infinite, such as 1.0 / 0.0.", "math.isInf(1.0 / 0.0)", true],
    ["math.isFinite", "math.isFinite(x)", "Whether it is a number that is not infinite.", "math.isFinite(1.5)", true],
    ["math.bitAnd", "math.bitAnd(a, b)", "The bits that both have.", "math.bitAnd(6, 3)", 2],
    ["math.bitOr", "math.bitOr(a, b)", "The bits that one of them has.", "math.bitOr(6, 3)", 7],
    ["math.bitXor", "math.bitXor(a, b)", "The bits that exactly one of them has.", "math.bitXor(6, 3)", 5],
    ["math.bitNot", "math.bitNot(a)", "The other bits.", "math.bitNot(1)", -2],
    ["math.bitShiftLeft", "math.bitShiftLeft(a, count)", "The bits, moved up.", "math.bitShiftLeft(1, 4)", 16],
    [
      "math.bitShiftRight",
      "math.bitShiftRight(a, count)",
      "The bits, moved down; zeros come in.",
      "math.bitShiftRight(16, 2)",
      4,
    ],
  ],
);
