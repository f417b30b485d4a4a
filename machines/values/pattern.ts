// Regular expressions from outside (RE2): weighed before they are compiled, metered while they match. Whatever the pattern and the text,
// memory is bounded, and the work is paid for before it is done.
import { RE2JS } from "re2js";
import { programSize } from "./pattern-size.js";
import { WeightedCache } from "./weighted-cache.js";

const MAX_PATTERN_CHARS = 1_000;
/** Instructions. Compiling takes 1 to 4 µs for each, and 250 bytes (measured). */
const MAX_PROGRAM = 10_000;
/** The programs of all cached patterns, and the states that each may keep. */
const MAX_CACHED_BYTES = 32 * 1_048_576;
const INSTRUCTION_BYTES = 250;
const ERROR_BYTES = 2_000;
/**
 * The engine keeps the states that it has met, up to 8 MiB a pattern. What is over this goes after a test: a hundred hostile patterns
 * would keep a gigabyte.
 */
const MAX_STATES_BYTES = 262_144;
const ENGINE_STATES_BYTES = 8_388_608;

/** The pattern is none, or its program is too large. The message says which. */
export class PatternError extends Error {
  override readonly name = "PatternError";
}

/** Takes units of 10 to 60 ns. It may throw, and the work that it was to pay for is not done. */
export type Spend = (units: number) => void;

export interface Pattern {
  /** Instructions of its program. */
  readonly size: number;
  /**
   * Whether the pattern matches anywhere in the text. `fresh`: nothing is remembered of earlier texts, so that the cost depends on the
   * texts since then only.
   */
  test(text: string, spend: Spend, fresh: boolean): boolean;
}

/** Invalid patterns too: a loop may try the same one ten thousand times. */
const compiled = new WeightedCache<string, Pattern | PatternError>(MAX_CACHED_BYTES);

/** Throws PatternError. */
export function compilePattern(source: string): Pattern {
  if (source.length > MAX_PATTERN_CHARS)
    throw new PatternError(`a pattern has at most ${MAX_PATTERN_CHARS} characters`);
  const known = compiled.get(source) ?? remember(source, compile(source));
  if (known instanceof PatternError) throw known;
  return known;
}

function remember(source: string, result: Pattern | PatternError): Pattern | PatternError {
  const weight = result instanceof PatternError ? ERROR_BYTES : result.size * INSTRUCTION_BYTES + MAX_STATES_BYTES;
  compiled.set(source, result, weight);
  return result;
}

function compile(source: string): Pattern | PatternError {
  if (programSize(source) > MAX_PROGRAM)
    return new PatternError(`the repetitions of a pattern make a program of over ${MAX_PROGRAM} instructions`);
  try {
    return new MeteredPattern(RE2JS.compile(source));
  } catch (error) {
    return new PatternError(error instanceof Error ? error.message : "error parsing regexp");
  }
}

type Engine = ReturnType<RE2JS["re2"]>;

/** A character that a state is known for, or that the program reads by itself. */
const PER_CHARACTER = 0.5;
/** An instruction that is visited to build a state. */
const PER_VISIT = 5;
/** An instruction, for each character, of the engine without states. */
const PER_THREAD = 0.5;

/**
 * The engine builds a state for each set of instructions that a text leads to, remembers it, and falls back to threads where there are
 * too many. A character costs 10 ns or 50 µs, as the text goes; so the engine pays for each visit and each fallback, through the two
 * functions that they pass. pattern.test.ts fails if another release of the engine does not pass them.
 */
class MeteredPattern implements Pattern {
  readonly size: number;
  private readonly engine: Engine;
  private spend: Spend = unpaid;

  constructor(private readonly pattern: RE2JS) {
    this.size = pattern.programSize();
    this.engine = pattern.re2();
    const { prog } = this.engine;
    prog.getInst = (pc: number) => {
      this.spend(PER_VISIT);
      return prog.inst[pc];
    };
    const execute = this.engine.doExecuteNFA.bind(this.engine);
    this.engine.doExecuteNFA = (input, ...rest) => {
      this.spend(input.endPos() * this.size * PER_THREAD);
      return execute(input, ...rest);
    };
  }

  test(text: string, spend: Spend, fresh: boolean): boolean {
    if (fresh) this.forget();
    this.spend = spend;
    try {
      spend(4 + text.length * PER_CHARACTER);
      return this.pattern.test(text);
    } catch (error) {
      this.forget();
      throw error;
    } finally {
      this.spend = unpaid;
      if (this.statesBytes > MAX_STATES_BYTES) this.forget();
    }
  }

  private get statesBytes(): number {
    const { lazyDFA } = this.engine as { lazyDFA: { memBudget: number } | null };
    return lazyDFA ? ENGINE_STATES_BYTES - lazyDFA.memBudget : 0;
  }

  private forget(): void {
    (this.engine as { lazyDFA: unknown }).lazyDFA = null;
  }
}

function unpaid(): void {}
