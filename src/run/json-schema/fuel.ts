// Fuel bounds a check against a JSON Schema: the generated code counts its calls and the rounds of its loops. References can
// double the work with every level of a value, although the schema is small. Fuel is not a clock: the same schema and value end
// at the same place on every machine.

/** A unit is one call or one round of a loop, plus one for each KiB of code in its body: 10 to 150 ns. */
const FUEL = 300_000;

class OutOfFuel extends Error {
  override readonly name = "OutOfFuel";
}

/** Checks are synchronous and do not nest, so one counter serves the process. */
let left = 0;

export function withFuel<T>(work: () => T): T {
  left = FUEL;
  return work();
}

/** Throws once the fuel is used up. */
export function spend(units: number): void {
  left -= units;
  if (left < 0) throw new OutOfFuel("the check used up its budget");
}

export function isOutOfFuel(error: unknown): boolean {
  return error instanceof OutOfFuel;
}

/** Generated code cannot close over `spend`; it finds it by name in the global symbol registry. */
const SPEND = Symbol.for("saga.schema.spend");
Object.defineProperty(globalThis, SPEND, { value: spend });

/** String literals are matched too, and skipped: a name in a schema may look like code. */
const TOKENS = /"(?:[^"\\]|\\.)*"|(function \w+\(data, \{.*?\}=\{\}\)\{|for\s*\([^)]*\)\{)|[{}]/g;

/** The validator's generated code with a payment at the head of every function and of every loop. */
export function metered(code: string): string {
  const calls: { readonly at: number; readonly weight: number }[] = [];
  /** The open blocks. Those of functions and loops pay. */
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
