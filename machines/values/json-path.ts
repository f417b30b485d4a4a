// JSON paths, which name places in requests and documents for people (`$.items[0]["a b"]`), and JSON pointers, which do it for programs
// (`/items/0/a b`).

/** One step of a path: `.name`, `["any other name"]`, or `[0]` for an item. */
export function pathElement(key: string | number): string {
  if (typeof key === "number") return `[${key}]`;
  return /^[A-Za-z_]\w*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
}

/** A JSON path one step deeper. */
export function jsonPath(path: string, key: string | number): string {
  return path + pathElement(key);
}

/** The JSON path of a JSON pointer that starts at `from`. */
export function pathOfPointer(pointer: string, from = "$"): string {
  return fieldPathOf(pointer).reduce<string>(jsonPath, from);
}

/** The names of a JSON pointer. */
export function keysOfPointer(pointer: string): readonly string[] {
  const keys = pointer.split("/").slice(1);
  return keys.map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** The names of members and the indexes of items on the way to a value. */
export type FieldPath = readonly (string | number)[];

/** The path that a JSON pointer names. A name of digits counts as the index of an item, because a pointer does not tell. */
export function fieldPathOf(pointer: string): FieldPath {
  return keysOfPointer(pointer).map((key) => (/^\d+$/.test(key) ? Number(key) : key));
}

/** One step of a JSON pointer. */
export function pointerElement(key: string | number): string {
  return `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}
