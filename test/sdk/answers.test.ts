// What a worker remembers of its answers: each until it is recorded, and then as many of the last ones as it says.
import { describe, expect, it } from "vitest";
import { type AnswerMessage, Answers } from "../../src/sdk/worker/answers.js";

const answer = (text: string): AnswerMessage => ({
  result: { dispatch_id: text, run_id: "r", step_id: "s", attempt: 1, result_json: Buffer.from(text) },
});

function answered(answers: Answers<string>, ids: Iterable<string>, text = (id: string) => id): void {
  for (const id of ids) {
    answers.add(id, answer(text(id)), "first");
    answers.recorded(id);
  }
}

const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, nth) => `${from + nth}`);
const remembered = (answers: Answers<string>, ids: readonly string[]) =>
  ids.filter((id) => {
    const again = answers.again(id, "again");
    // As after its repeat was sent: it is recorded once more.
    if (again) answers.recorded(id);
    return again !== undefined;
  });

describe("answers", () => {
  it("are kept until they are recorded, and come again with their new origin", () => {
    const answers = new Answers<string>();
    const first = answers.add("a", answer("a"), "first");
    expect([answers.size, [...answers.all()]]).toEqual([1, [first]]);
    expect(answers.again("a", "second")).toBe(first);
    expect(first.via).toBe("second");
    answers.recorded("a");
    answers.recorded("a");
    expect(answers.size).toBe(0);
    expect(answers.again("a", "third")).toMatchObject({ message: answer("a"), via: "third" });
    expect(answers.size).toBe(1);
    expect(answers.again("b", "first")).toBeUndefined();
  });

  it("are remembered when they are recorded: the last 5,000 at least, and 10,000 at most", () => {
    const answers = new Answers<string>();
    const ids = numbers(0, 23_456);
    answered(answers, ids);
    expect(remembered(answers, ids.slice(-5_000))).toEqual(ids.slice(-5_000));
    expect(remembered(answers, ids.slice(0, -10_000))).toEqual([]);
  });

  it("of large outputs are remembered by their bytes: 32 MiB at least, and 64 MiB at most", () => {
    const answers = new Answers<string>();
    const ids = numbers(0, 300);
    const text = "x".repeat(1_048_576 - 256);
    answered(answers, ids, () => text);
    expect(remembered(answers, ids.slice(-32))).toEqual(ids.slice(-32));
    expect(remembered(answers, ids.slice(0, -64))).toEqual([]);
    // One that is larger than that by itself is remembered, too.
    answered(answers, ["huge"], () => "x".repeat(40 * 1_048_576));
    expect(remembered(answers, ["huge", "299"])).toEqual(["huge", "299"]);
  });

  it("that are sent again are remembered as long as the last ones", () => {
    const answers = new Answers<string>();
    answered(answers, ["old", ...numbers(0, 5_000)]);
    expect(remembered(answers, ["old"])).toEqual(["old"]);
    answered(answers, numbers(5_000, 9_998));
    expect(remembered(answers, ["old"])).toEqual(["old"]);
  });
});
