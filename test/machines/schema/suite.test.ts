// The official test suite of JSON Schema 2020-12: each schema stands under a member of an `input_schema`, is read as a definition has it, and
// each value is checked as the inputs of a start. What is refused by design says so.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { compileWorkflow, type Json, type JsonObject, measure, Schemas } from "../../../machines/index.js";

interface Group {
  readonly file: string;
  readonly description: string;
  readonly schema: Json;
  readonly tests: readonly (readonly [description: string, data: Json, valid: boolean])[];
}

const text = readFileSync(join(import.meta.dirname, "suite/draft2020-12.jsonl"), "utf8");
const groups = text.split("\n").flatMap((line): Group[] => (line === "" ? [] : [JSON.parse(line)]));
const files = [...new Set(groups.map(({ file }) => file))];
const counts = { right: 0, refused: 0, asserted: 0 };

/** Documents are not fetched, so what only one of them says is not known. */
const REMOTE =
  /can't resolve reference .*: references to other documents are not followed|its \$schema is not https:\/\/json-schema\.org\/draft\/2020-12\/schema/;
/** Formats assert here. Where the suite has them as notes, it says so in the description. */
const isNote = (description: string) => / is only an annotation by default$/.test(description);

const schemas = new Schemas();

/** The schema as a resource of its own, so that its references do not lead to the whole. */
function definitionOf(schema: Json, index: number): JsonObject {
  const v = typeof schema === "object" ? { $id: `https://suite.example/${index}`, ...schema } : schema;
  const steps = [{ id: "a", type: "noop" }];
  return { id: "w", name: "w", start: "a", steps, input_schema: { type: "object", properties: { v } } };
}

function outcomes({ file, description, schema, tests }: Group, index: number): string[] {
  const definition = definitionOf(schema, index);
  const { program, problems } = compileWorkflow(definition, { schemaProblems: (one) => schemas.problems(one) });
  if (!program) {
    const { message = "" } = problems[0] ?? {};
    if (REMOTE.test(message) || /contains U\+0000/.test(message)) {
      counts.refused += tests.length;
      return [];
    }
    return [`${description}: ${message}`];
  }
  return tests.flatMap(([test, data, valid]) => {
    if (typeof measure({ v: data }) !== "number") {
      counts.refused++;
      return [];
    }
    const found = schemas.conforms(program.inputSchema ?? {}, { v: data });
    if (file === "format" && isNote(test)) {
      counts.asserted++;
      return [];
    }
    if ((found.length === 0) !== valid) return [`${description}: ${test}: ${found.join("; ") || "fits"}`];
    counts.right++;
    return [];
  });
}

describe("the official suite of JSON Schema 2020-12", () => {
  it.each(files)("%s", (file) => {
    const wrong = groups.flatMap((group, index) => (group.file === file ? outcomes(group, index) : []));
    expect(wrong).toEqual([]);
  });

  afterAll(() => {
    const { right, refused, asserted } = counts;
    console.log(
      `JSON Schema suite: ${right} right, ${refused} refused by design (other documents, U+0000), ${asserted} of formats that assert here`,
    );
  });
});
