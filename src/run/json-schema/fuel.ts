// What makes a check against a JSON Schema end: its generated code counts its calls and the rounds of its loops. References
// may double the work with every level of a value, and nothing of the schema's size shows it. Not a clock: the same schema
// and value end at the same place on every machine.

/** A unit is a call or a round of a loop, or a KiB of the code of its body: 10 to 150 ns. */
const FUEL = 300_000;

class Spent extends Error {
  override readonly name = "Spent";
}

/** Checks are synchronous and do not nest, so one tank serves the process. */
let left = 0;

export function burnFuel<T>(work: () => T): T {
  left = FUEL;
  return work();
}

/** Throws once the tank is empty. */
export function spend(units: number): void {
  left -= units;
  if (left < 0) throw new Spent("the check used up its budget");
}

export function isSpent(error: unknown): boolean {
  return error instanceof Spent;
}

/** Generated code has no closures of ours; it reaches this by its name in the global symbol registry. */
const SPEND = Symbol.for("saga.schema.spend");
Object.defineProperty(globalThis, SPEND, { value: spend });

/** String literals are passed over: a name in a schema may look like code. */
const TOKENS = /"(?:[^"\\]|\\.)*"|(function \w+\(data, \{.*?\}=\{\}\)\{|for\s*\([^)]*\)\{)|[{}]/g;

/** The validator's generated code, paying for its body at the head of every function and of every loop. */
export function metered(code: string): string {
  const calls: { readonly at: number; readonly weight: number }[] = [];
  /** Where the open blocks begin; those that pay are marked. */
  const open: { readonly at: number; readonly pays: boolean }[] = [];
  for (const { 0: text, 1: head, index } of code.matchAll(TOKENS)) {
    if (head !== undefined || text === "{") open.push({ at: index + text.length, pays: head !== undefined });
    else if (text === "}") {
      const block = open.pop();
      if (block?.pays) calls.push({ at: block.at, weight: 1 + ((index - block.at) >>> 10) });
    }
  }
  let from = 0;
  let paying = "";
  for (const { at, weight } of calls.sort((a, b) => a.at - b.at)) {
    paying += `${code.slice(from, at)}globalThis[Symbol.for("saga.schema.spend")](${weight});`;
    from = at;
  }
  return paying + code.slice(from);
}
