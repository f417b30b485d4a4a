// JSON paths, which name places in requests and documents: `$.items[0]["a b"]`.

/** A JSON path one step deeper. */
export function jsonPath(path: string, key: string | number): string {
  if (/^\d+$/.test(String(key))) return `${path}[${key}]`;
  return /^[A-Za-z_]\w*$/.test(String(key)) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`;
}

/** The JSON path of a JSON pointer that starts at `from`. */
export function pathOfPointer(pointer: string, from = "$"): string {
  const keys = pointer.split("/").slice(1);
  return keys.map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~")).reduce(jsonPath, from);
}
