// Patterns of files as saga.config.json has them, such as workflows/**. They are matched against paths with slashes, relative to the project's folder.

/** `**` is any number of folders, `*` and `?` are characters of one name, `{a,b}` is one of several. A path without any of them is that file, or all below it. */
export function matcherOf(patterns: readonly string[]): (path: string) => boolean {
  const expressions = patterns.map((pattern) => expressionOf(pattern));
  return (path) => expressions.some((expression) => expression.test(path));
}

function expressionOf(pattern: string): RegExp {
  const plain = pattern.replaceAll("\\", "/").replace(/^\.\//, "").replace(/\/+$/, "");
  let text = "";
  let depth = 0;
  for (let at = 0; at < plain.length; at++) {
    const rest = plain.slice(at);
    const char = plain[at] ?? "";
    if (rest.startsWith("**/")) {
      text += "(?:[^/]+/)*";
      at += 2;
    } else if (rest.startsWith("**")) {
      text += ".*";
      at += 1;
    } else if (char === "*") text += "[^/]*";
    else if (char === "?") text += "[^/]";
    else if (char === "{") {
      depth++;
      text += "(?:";
    } else if (char === "}" && depth > 0) {
      depth--;
      text += ")";
    } else if (char === "," && depth > 0) text += "|";
    else text += char.replace(/[.+^$()|[\]\\{}]/, "\\$&");
  }
  return new RegExp(`^${text}${")".repeat(depth)}${/[*?{]/.test(plain) ? "" : "(?:/.*)?"}$`);
}
