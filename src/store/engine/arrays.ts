// Arrays of Postgres as the driver sends and reads them: one dimension, of the types that the statements use. It knows nothing of columns,
// sessions or statements.

/** The ids of the types of arrays. Those of built-in types are the same in every server and never change. */
const ARRAYS_OF_TEXT = [1003, 1008, 1009, 1015, 1016, 1231, 2951];
const ARRAYS_OF_NUMBERS = [1005, 1007, 1021, 1022];
const ARRAY_OF_FLAGS = 1000;
const ARRAY_OF_TIMES = 1185;

/** The `types` of a pool: without its type here, an array would arrive as the text that Postgres writes, and be refused as a parameter. */
export const ARRAY_TYPES = {
  texts: arrayType(ARRAYS_OF_TEXT, (text) => text),
  numbers: arrayType(ARRAYS_OF_NUMBERS, Number),
  flags: arrayType([ARRAY_OF_FLAGS], (text) => text === "t"),
  times: arrayType([ARRAY_OF_TIMES], (text) => new Date(text)),
};

function arrayType(ids: readonly number[], read: (element: string) => unknown) {
  return {
    to: ids[0] as number,
    from: [...ids],
    serialize: writeArray,
    parse: (text: string) => readArray(text, read),
  };
}

/** What is no array is the text of one already. */
function writeArray(elements: unknown): string {
  return Array.isArray(elements) ? `{${elements.map(writeElement).join(",")}}` : String(elements);
}

function writeElement(element: unknown): string {
  if (element === null) return "null";
  if (element === undefined) throw new TypeError("an element of an array parameter is undefined");
  const text = element instanceof Date ? element.toISOString() : String(element);
  return `"${text.replace(/["\\]/g, "\\$&")}"`;
}

/** Quoted or bare; bare ones contain none of the signs. */
const ELEMENT = /"([^"\\]*(?:\\.[^"\\]*)*)"|([^{},]+)/gs;

function readArray(text: string, read: (element: string) => unknown): unknown[] {
  return Array.from(text.matchAll(ELEMENT), ([, quoted, bare]) => {
    if (bare !== undefined) return bare === "NULL" ? null : read(bare);
    return read((quoted as string).replace(/\\(.)/gs, "$1"));
  });
}
