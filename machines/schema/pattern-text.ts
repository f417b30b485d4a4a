// The regular expressions of JSON Schema (ECMA-262, with the flag u) as RE2 writes them. Features that need backtracking stay as they are, and
// are refused when the pattern is compiled.
import { RE2JS } from "re2js";

const CATEGORIES: Readonly<Record<string, string>> = {
  ...{ Letter: "L", Cased_Letter: "LC", Uppercase_Letter: "Lu", Lowercase_Letter: "Ll", Titlecase_Letter: "Lt" },
  ...{ Modifier_Letter: "Lm", Other_Letter: "Lo", Mark: "M", Combining_Mark: "M", Nonspacing_Mark: "Mn" },
  ...{ Spacing_Mark: "Mc", Enclosing_Mark: "Me", Number: "N", Decimal_Number: "Nd", digit: "Nd", Letter_Number: "Nl" },
  ...{ Other_Number: "No", Punctuation: "P", punct: "P", Connector_Punctuation: "Pc", Dash_Punctuation: "Pd" },
  ...{ Open_Punctuation: "Ps", Close_Punctuation: "Pe", Initial_Punctuation: "Pi", Final_Punctuation: "Pf" },
  ...{ Other_Punctuation: "Po", Symbol: "S", Math_Symbol: "Sm", Currency_Symbol: "Sc", Modifier_Symbol: "Sk" },
  ...{ Other_Symbol: "So", Separator: "Z", Space_Separator: "Zs", Line_Separator: "Zl", Paragraph_Separator: "Zp" },
  ...{ Other: "C", Control: "Cc", cntrl: "Cc", Format: "Cf", Surrogate: "Cs", Private_Use: "Co", Unassigned: "Cn" },
};

/** An escape of two characters, or a property with its name: `\p{Letter}`, `\P{Script=Greek}`. */
const ESCAPE = /\\([pP])\{(?:(?:General_Category|gc|Script|sc|Script_Extensions|scx)=)?(\w+)\}|\\[\s\S]/g;

export function re2Of(pattern: string): string {
  return RE2JS.translateRegExp(pattern.replace(ESCAPE, short));
}

function short(text: string, sign: string | undefined, name = ""): string {
  if (sign === undefined) return text;
  return `\\${sign}{${Object.hasOwn(CATEGORIES, name) ? CATEGORIES[name] : name}}`;
}
