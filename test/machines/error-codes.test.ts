// The catalogue of the engine's error codes: each code is raised somewhere in the source. That nothing raises a code outside the
// catalogue is for the compiler to check.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ENGINE_ERRORS, givenCode, type StepError } from "../../machines/index.js";

const ROOT = join(import.meta.dirname, "../..");
/** The SDK runs in the workers: its codes are theirs. */
const source = ["machines", "src/api", "src/dispatch"]
  .flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" }).map((name) => join(folder, name)),
  )
  .filter((path) => path.endsWith(".ts") && path !== "machines/values/error-code.ts")
  .map((path) => readFileSync(join(ROOT, path), "utf8"))
  .join("\n");

/** `code: "timeout"`, `code: silent ? "heartbeat_timeout" : "timeout"`, `failed("not_found", ...)`, `"error" satisfies ...`. */
function isRaised(code: string): boolean {
  if (code === "http_<status>") return /\bcode: `http_\$\{/.test(source);
  return new RegExp(`(\\bcode: (\\w+ \\? )?|\\b(failed|unsent)\\()"${code}"|"${code}" satisfies EngineErrorCode`).test(
    source,
  );
}

describe("the engine's error codes", () => {
  it("are all raised somewhere", () => {
    expect(Object.keys(ENGINE_ERRORS).filter((code) => !isRaised(code))).toEqual([]);
    expect(isRaised("never_raised")).toBe(false);
  });

  it("are a closed union; other codes are given by workers and authors", () => {
    const known: StepError = { code: "http_503", message: "" };
    const theirs: StepError = { code: givenCode("card_declined"), message: "" };
    // @ts-expect-error no such code
    const wrong: StepError = { code: "tiemout", message: "" };
    expect([known, theirs, wrong].map(({ code }) => code)).toEqual(["http_503", "card_declined", "tiemout"]);
  });
});
