// The token of a dispatch's reports: it is good for one dispatch of one step of one run, and no other text is.
import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import { CallbackTokens } from "../../src/access/index.js";

const STEP = { runId: randomUUID(), stepId: "charge" };
const CLAIMS = { phase: "forward", attempt: 3, deadlineAt: 1_900_000_000_000, dispatchId: randomUUID() } as const;
const [OLD, NEW] = ["an old key of thirty-two characters", "a new key of thirty-two characters!"];

describe("a callback token", () => {
  const tokens = new CallbackTokens([NEW]);
  const token = tokens.issue(STEP, CLAIMS);

  it("tells what it was issued for, and fits into a header", () => {
    expect(tokens.verify(token, STEP)).toEqual(CLAIMS);
    expect(tokens.verify(tokens.issue(STEP, { ...CLAIMS, phase: "compensation" }), STEP)?.phase).toBe("compensation");
    expect(token).toMatch(/^[\w.-]{1,128}$/);
  });

  it("is of no other run and no other step", () => {
    expect(tokens.verify(token, { ...STEP, runId: randomUUID() })).toBeUndefined();
    expect(tokens.verify(token, { ...STEP, stepId: "refund" })).toBeUndefined();
  });

  it("is none with any character changed, added or removed", () => {
    for (let at = 0; at < token.length; at++) {
      const [before, after] = [token.slice(0, at), token.slice(at + 1)];
      for (const other of "0123456789abcdefABCDEFfcxyz_-.") {
        if (other !== token[at]) expect(tokens.verify(`${before}${other}${after}`, STEP)).toBeUndefined();
        expect(tokens.verify(`${before}${other}${token[at]}${after}`, STEP)).toBeUndefined();
      }
      expect(tokens.verify(before + after, STEP)).toBeUndefined();
    }
    for (const text of ["", ".", "....", token.toUpperCase(), `${token} `, ` ${token}`, `${token}\n`])
      expect(tokens.verify(text, STEP)).toBeUndefined();
  });

  it("is none with the claims of another one", () => {
    const others = [
      { ...CLAIMS, attempt: 4 },
      { ...CLAIMS, phase: "compensation" as const },
      { ...CLAIMS, deadlineAt: CLAIMS.deadlineAt + 1 },
      { ...CLAIMS, dispatchId: randomUUID() },
    ];
    const mac = (text: string) => text.slice(text.lastIndexOf("."));
    for (const other of others) {
      const issued = tokens.issue(STEP, other);
      expect(tokens.verify(issued.replace(mac(issued), mac(token)), STEP)).toBeUndefined();
    }
  });

  it("is verified by a key that was replaced, and by no other", () => {
    const before = new CallbackTokens([OLD]).issue(STEP, CLAIMS);
    expect(new CallbackTokens([NEW, OLD]).verify(before, STEP)).toEqual(CLAIMS);
    expect(new CallbackTokens([NEW, OLD]).issue(STEP, CLAIMS)).toBe(token);
    expect(tokens.verify(before, STEP)).toBeUndefined();
  });
});
