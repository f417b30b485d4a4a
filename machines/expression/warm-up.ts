// Warms up a new process, since V8 optimises code that has run. Without it the first heavy expression holds the event loop two to
// three times as long as later ones (measured for a whole budget: 117 ms and 40 ms).
import { compileExpression } from "./compile.js";
import { forEachItem } from "./each.js";
import { ExpressionError } from "./errors.js";
import type { Scope } from "./values.js";

const SOURCES = [
  "vars.rows.all(x, vars.rows.all(y, has(x.none) || x.n <= y.n || x.text != ''))",
  "vars.rows.map(x, {'n': x.n * 2, 'list': [x.n, x.missing == 1 ? 1 : 2]}).size()",
  "vars.rows.map(x, vars.rows.map(y, [x.n + y.n, [y.text]]))",
  "vars.rows.filter(x, x.text.startsWith('r') && x.text.matches('^r[0-9]+$') && x.n > 1 && x in vars.rows)",
  "vars.rows.exists(x, x.none == 1 || x.none == 2 || x.none == 3)",
];

/** Takes about 100 ms, once, before the process accepts work. */
export function warmUp(): void {
  const rows = Array.from({ length: 150 }, (_, n) => ({ n, text: `r${n}` }));
  const scope: Scope = { vars: { rows } };
  for (const source of SOURCES) evaluate(source, scope, rows);
}

function evaluate(source: string, scope: Scope, rows: readonly { n: number; text: string }[]): void {
  const expression = compileExpression(source);
  const small = compileExpression("item.n > 1 && item.text != ''");
  try {
    forEachItem(rows, scope, small, (round) => small.test(round));
    expression.evaluate(scope);
  } catch (error) {
    // An exhausted budget is fine here.
    if (!(error instanceof ExpressionError)) throw error;
  }
}
