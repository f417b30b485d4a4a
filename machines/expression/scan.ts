// Where the string literals of a CEL source begin and end, all that has to be known to find the brace that closes a
// template. Not a tokenizer: what stands between the literals is left to the parser.

const QUOTE_PREFIX = /(?:^|[^A-Za-z0-9_])([rRbB]{1,2})$/;

/**
 * The offset behind the literal whose quote stands at `start`, or undefined if it never ends. Knows single and triple
 * quotes, and raw strings, in which a backslash is a character like any other.
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

/** The offset of the brace that balances the one before `start`, outside quotes, or undefined if there is none. */
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
