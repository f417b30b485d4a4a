// JSON from outside, as text: the same at every door. What may be stored of it is another question (`measure` of machines/).

/**
 * With or without a byte order mark before it, as editors and libraries of Windows write it; RFC 8259, section 8.1, lets parsers ignore one.
 * Throws SyntaxError.
 */
export function parseJson(text: string, reviver?: (key: string, value: unknown) => unknown): unknown {
  return JSON.parse(text.startsWith("\uFEFF") ? text.slice(1) : text, reviver);
}
