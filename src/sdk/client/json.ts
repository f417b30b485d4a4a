// Values on their way out and what JSON would lose of them in silence. Answers are parsed as they come: numbers are JavaScript's.

/** An object of JSON whose members the client does not know. */
export type JsonObject = { readonly [member: string]: unknown };

/** Throws TypeError where JSON has no such value: it names the member and does not show the value. */
export function jsonText(value: unknown): string {
  return JSON.stringify(value, (member, one: unknown) => {
    const wrong = misfit(one);
    if (wrong !== undefined) throw new TypeError(`the member ${JSON.stringify(member)} is ${wrong}`);
    return one;
  });
}

function misfit(value: unknown): string | undefined {
  if (typeof value === "bigint") return "a bigint, which JSON has not: send it as a string";
  if (typeof value === "number" && !Number.isFinite(value)) return `${value}, which JSON has not`;
  if (typeof value === "function" || typeof value === "symbol") return `a ${typeof value}, which JSON has not`;
  if (value instanceof Map || value instanceof Set)
    return "a Map or a Set, which JSON has not: send an object or a list";
  return undefined;
}
