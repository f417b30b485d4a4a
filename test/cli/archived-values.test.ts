// What `saga archive show` shows of sealed values where it has no keys: that they are sealed, and the rest as it is.
import { describe, expect, it } from "vitest";
import { openedValues } from "../../src/cli/operate/archived-values.js";

describe("an archived run with sealed values", () => {
  it("is shown without them where there are no keys, with a note that names the setting", async () => {
    const notes: string[] = [];
    const terminal = { note: (text: string) => void notes.push(text) };
    const sealed = { $sealed: [1, "runs.output/x", "o", "AAAA"] };
    const found = { run: { state: "succeeded", output: sealed, error: { code: "broken", message: sealed } } };
    expect(await openedValues(found, terminal)).toEqual({
      run: { state: "succeeded", output: "[sealed]", error: { code: "broken", message: "[sealed]" } },
    });
    expect(notes).toEqual([expect.stringContaining("SAGA_ENCRYPTION_KEYS_FILE")]);
    expect(await openedValues({ run: { output: 1 } }, terminal)).toEqual({ run: { output: 1 } });
    expect(notes).toHaveLength(1);
  });
});
