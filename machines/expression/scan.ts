// Finds the ends of string literals in a CEL source, as needed to find the brace that closes a template. The parser handles
// everything else.

const QUOTE_PREFIX = /(?:^|[^A-Za-z0-9_])([rRbB]{1,2})$/;

/**
 * The offset after the literal whose quote is at `start`. Undefined: the literal is not closed. Handles single and triple quotes,
 * and raw strings, in which a backslash is an ordinary character.
 */
export function endOfLiteral(source: string, start: number): number | undefined {
  const quote = source[start] ?? "";
  const delimiter = source.startsWith(quote.repeat(3), start) ? quote.repeat(3) : quote;
  const prefix = QUOTE_PREFIX.exec(source.slice(Math.max(0, start - 3), start))?.[1] ?? "";
  const raw = /r/i.test(prefix);
  for (let index = start + delimiter.length; index < source.length; index++) {
    if (!raw && source[index] === "\\") index++;
    else if (source.startsWith(delimiter, index)) return index + delimiter.length;
  }
  return undefined;
}

/** The offset of the brace, outside quotes, that closes the one before `start`. Undefined if there is none. */
export function closingBrace(source: string, start: number): number | undefined {
  let depth = 1;
  let index = start;
  while (index < source.length) {
    const char = source[index];
    if (char === '"' || char === "'") {
      const end = endOfLiteral(source, index);
      if (end === undefined) return undefined;
      index = end;
      continue;
    }
    if (char === "{") depth++;
    if (char === "}" && --depth === 0) return index;
    index++;
  }
  return undefined;
}
