// What an expression makes of secret and encrypted values: a copy keeps its marks, a value that was computed of one is secret.
import { describe, expect, it } from "vitest";
import { compileExpression, compileTemplate } from "../../../machines/expression/index.js";
import { ExpressionError, type Json, secret } from "../../../machines/index.js";

const scope = {
  inputs: {
    pin: secret("1234"),
    card: secret({ number: "4111", year: 30 }),
    user: { name: "ann", token: secret("t-1") },
    tokens: [secret("a"), secret("b")],
    plain: [1, 2, 3],
    users: [
      { name: "ann", token: secret("t-1") },
      { name: "bob", token: secret("t-2") },
    ],
  },
  vars: { enc: { $enc: { v: "x" } }, on: secret(true) },
};
const of = (source: string): Json => compileExpression(source).evaluate(scope);

describe("expressions about secret values", () => {
  it.each<[string, Json]>([
    // Copies.
    ["inputs.pin", secret("1234")],
    ["inputs.card", secret({ number: "4111", year: 30 })],
    ["inputs.card.number", secret("4111")],
    ['inputs.card["year"]', secret(30)],
    ["inputs.user", { name: "ann", token: secret("t-1") }],
    ["inputs.user.name", "ann"],
    ["[inputs.user]", [{ name: "ann", token: secret("t-1") }]],
    ['{"of": inputs.user}', { of: { name: "ann", token: secret("t-1") } }],
    ["inputs.users.map(u, u)", scope.inputs.users as Json],
    ["inputs.users.map(u, u.name)", ["ann", "bob"]],
    ["inputs.users.filter(u, u.name == 'bob')", [scope.inputs.users[1] as Json]],
    ["inputs.tokens", [secret("a"), secret("b")]],
    ["inputs.?user.?token", secret("t-1")],
    ["vars.enc", { $enc: { v: "x" } }],
    ["[vars.enc]", [{ $enc: { v: "x" } }]],
    // Computed.
    ["inputs.pin + '!'", secret("1234!")],
    ["inputs.pin == '1234'", secret(true)],
    ["size(inputs.pin)", secret(4)],
    ["inputs.pin in ['1234']", secret(true)],
    ["has(inputs.card.number)", secret(true)],
    ["size(inputs.card)", secret(2)],
    ["vars.on ? 1 : 2", secret(1)],
    ["inputs.users.map(u, u.token)", secret(["t-1", "t-2"])],
    ["inputs.users.exists(u, u.token == 't-2')", secret(true)],
    ["inputs.tokens.join(',')", secret("a,b")],
    ["inputs.users == inputs.users.map(u, u)", true],
    ["inputs.users[0] == {'name': 'ann', 'token': 't-1'}", secret(true)],
    ["inputs.missing.orValue(1)", null],
    // Not read, or public about it.
    ["true || inputs.pin == '1'", true],
    ["size(inputs.tokens)", 2],
    ["inputs.plain.map(n, n * 2)", [2, 4, 6]],
    ["vars.on == true ? [1] : []", secret([1])],
  ])("%s", (source, wanted) => {
    if (wanted === null) expect(() => of(source)).toThrow(ExpressionError);
    else expect(of(source)).toEqual(wanted);
  });

  it("a template is judged leaf by leaf, and a text is secret if a part of it is", () => {
    const template = compileTemplate({
      a: "${inputs.pin}",
      b: "pin ${inputs.pin}",
      c: "${inputs.user.name}",
      d: "user ${inputs.user}",
      e: [1, "${inputs.card.year + 1}"],
    });
    expect(template.render(scope)).toEqual({
      a: secret("1234"),
      b: secret("pin 1234"),
      c: "ann",
      d: secret('user {"name":"ann","token":"t-1"}'),
      e: [1, secret(31)],
    });
  });

  it("a reading of an encrypted value fails, whatever reads it", () => {
    for (const source of [
      ...["vars.enc.v", "vars.enc == 1", "vars.enc + 'x'", "size(vars.enc)", "has(vars.enc.v)", "vars.enc[0]"],
      ...["vars.enc ? 1 : 2", "vars.enc && true", "vars.enc.map(x, x)", "[vars.enc] == [vars.enc]", "string(vars.enc)"],
      ...["vars.enc.?v", "type(vars.enc)", "vars.enc in [1]", "[vars.enc, vars.enc].distinct()"],
    ])
      expect(() => of(source), source).toThrow(/encrypted/);
    expect(() => compileExpression("vars.enc").test(scope)).toThrow(/encrypted/);
    expect(() => compileTemplate("x ${vars.enc}").render(scope)).toThrow(/encrypted/);
  });

  it("an evaluation is not secret because of an earlier one", () => {
    expect(of("inputs.pin")).toEqual(secret("1234"));
    expect(of("inputs.user.name")).toBe("ann");
    expect(() => of("inputs.pin.nothing")).toThrow();
    expect(of("inputs.user.name")).toBe("ann");
    compileExpression("inputs.pin == '1'").test(scope);
    expect(of("1 + 1")).toBe(2);
  });
});
