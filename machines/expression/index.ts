// The door of the expression room: CEL expressions and the templates around them. The rest of machines/ imports from
// here and from time.ts, nowhere deeper.
export { compileExpression, type Expression, MAX_SOURCE_CHARS } from "./compile.js";
export { firstItem, forEachItem } from "./each.js";
export { ExpressionError, ExpressionSyntaxError } from "./errors.js";
export { burn } from "./fuel.js";
export { asText, truthy } from "./result.js";
export { compileTemplate, type Template } from "./template.js";
export { Instant, instant, type Scope, type ScopeValue } from "./values.js";
export { warmUp } from "./warm-up.js";
