// The entry point of expressions: CEL expressions and the templates around them. The rest of machines/ imports this file and
// scope.ts only.
export { CelExpression, compileExpression, type Expression, MAX_SOURCE_CHARS } from "./compile.js";
export { firstItem, forEachItem } from "./each.js";
export { equalities, type Scalar } from "./equalities.js";
export { ExpressionError, ExpressionSyntaxError } from "./errors.js";
export { withFuel } from "./fuel.js";
export { type JsonType, type Outline, outlineOf, outlineOfExpression } from "./outline.js";
export { asText, isSecretText, truthy } from "./result.js";
export { failedOnSecret } from "./secrets.js";
export { compileTemplate, type Found, readTemplate, type Template } from "./template.js";
export { constantTruth } from "./truth.js";
export { Instant, instant, type Scope, type ScopeValue } from "./values.js";
