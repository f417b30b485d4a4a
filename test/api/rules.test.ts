// Rules over HTTP: storing, publishing, reading, evaluating.
import { describe, expect, it } from "vitest";
import { useRig } from "./rig.js";

const rig = useRig();
const ROWS = [
  { when: "amount > 100", then: { branch: "lead", text: "${amount}" } },
  { when: "inputs.vip == true", then: { branch: "vip" } },
];
const rule = (rule_id: string, { default_output, ...more }: Record<string, unknown> = {}) => ({
  rule_id,
  name: "Approval",
  rule_type: "decision_table",
  spec: { hit_policy: "first", rows: ROWS, ...(default_output !== undefined && { default_output }) },
  ...more,
});
const post = (document: object) => rig.call("POST", "/api/v1/rules", document);
const evaluate = (id: string, body: object) => rig.call("POST", `/api/v1/rules/${id}/evaluate`, body);

describe("versions of a rule", () => {
  it("a document without a version gets the next one, unless a stored version is equal", async () => {
    const first = await post(rule("auto", { created_by: "ann" }));
    expect(first.status).toBe(201);
    expect(first.headers.location).toBe("/api/v1/rules/auto?version=1");
    const id = expect.stringMatching(/^[0-9a-f-]{36}$/);
    const stored = { id, version: 1, published: false, created_at: expect.any(String), created_by: "ann" };
    expect(first.body).toEqual({ ...rule("auto"), ...stored });
    expect(await post(rule("auto", { name: "Other" }))).toMatchObject({ status: 201, body: { version: 2 } });
    expect(await post(rule("auto"))).toMatchObject({ status: 200, body: { version: 1, published: false } });
    expect(await post(first.body)).toMatchObject({ status: 200, body: { id: first.body.id } });
    expect(await post(rule("auto", { published: true }))).toMatchObject({ status: 200, body: { published: true } });
    expect((await rig.call("GET", "/api/v1/rules/auto/versions")).body).toMatchObject({
      total: 2,
      items: [{ version: 2 }, { version: 1 }],
    });
  });

  it("another tenant or another spec is another content", async () => {
    for (const [index, more] of [
      {},
      { tenant_id: "t" },
      { default_output: {} },
      { default_output: { a: 1 } },
    ].entries())
      expect(await post(rule("contents", more))).toMatchObject({ status: 201, body: { version: index + 1 } });
  });

  it("concurrent posts get a version each", async () => {
    const answers = await Promise.all(Array.from({ length: 8 }, (_, n) => post(rule("rush", { name: `R${n % 4}` }))));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(4);
    expect(new Set(answers.map(({ body }) => body.version))).toEqual(new Set([1, 2, 3, 4]));
  });

  it("a published version never changes, also after unpublish; a draft may be replaced, under a new id", async () => {
    const draft = await post(rule("fixed", { version: 2 }));
    const better = await post(rule("fixed", { version: 2, name: "Better" }));
    expect(better.status).toBe(201);
    expect(better.body.id).not.toBe(draft.body.id);
    const published = await rig.call("POST", "/api/v1/rules/fixed/versions/2/publish");
    expect(published).toMatchObject({ status: 200, body: { published: true, name: "Better" } });
    expect(await post(rule("fixed", { version: 2 }))).toMatchObject({ status: 409, body: { error: "conflict" } });
    const unpublished = await rig.call("POST", "/api/v1/rules/fixed/versions/2/unpublish");
    expect(unpublished).toMatchObject({ status: 200, body: { published: false } });
    expect(await post(rule("fixed", { version: 2 }))).toMatchObject({ status: 409 });
    expect((await rig.call("GET", "/api/v1/rules/fixed")).status).toBe(404);
    expect(await rig.call("GET", "/api/v1/rules/fixed?version=2")).toMatchObject({ status: 200 });
    expect((await rig.call("POST", "/api/v1/rules/fixed/versions/9/publish")).status).toBe(404);
  });

  it("the catalog is refreshed after every write", async () => {
    const before = rig.refreshed;
    await post(rule("told", { published: true }));
    await rig.call("POST", "/api/v1/rules/told/versions/1/unpublish");
    expect(rig.refreshed).toBe(before + 2);
  });
});

describe("reading rules", () => {
  it("the list has each rule once, by its latest published version", async () => {
    for (const more of [{ name: "1", published: true }, { name: "2", published: true }, { name: "3" }])
      await post(rule("listed", more));
    const { body } = await rig.call("GET", "/api/v1/rules?limit=500");
    const found = body.items.filter((item: { rule_id: string }) => item.rule_id === "listed");
    expect(found).toMatchObject([{ version: 2 }]);
    expect(body.total).toBe(body.items.length);
    const first = await rig.call("GET", "/api/v1/rules?limit=1");
    const second = await rig.call("GET", `/api/v1/rules?limit=1&cursor=${first.body.next_cursor}`);
    expect([...first.body.items, ...second.body.items]).toEqual(body.items.slice(0, 2));
  });

  it("a missing rule is 404, a malformed request 400", async () => {
    for (const url of ["/api/v1/rules/nowhere", "/api/v1/rules/nowhere?version=1", "/api/v1/rules/nowhere/versions"])
      expect(await rig.call("GET", url), url).toMatchObject({ status: 404, body: { error: "not_found" } });
    expect((await rig.call("GET", "/api/v1/rules/a%20b")).status).toBe(400);
    expect((await rig.call("GET", "/api/v1/rules/nowhere?version=0")).status).toBe(400);
  });

  it("a document that is not valid is refused with every problem, and leaves no row", async () => {
    const before = await rig.countRows();
    const rows = [{ when: "a >", then: 1 }];
    const { status, body } = await post({ rule_id: "bad", rule_type: "decision_table", spec: { rows }, extra: 1 });
    expect([status, body.error]).toEqual([400, "invalid_config"]);
    expect(body.details.map(({ path }: { path: string }) => path)).toEqual([
      "$.extra",
      "$.name",
      "$.spec.hit_policy",
      "$.spec.rows[0].when",
      "$.spec.rows[0].then",
    ]);
    expect(await rig.call("POST", "/api/v1/rules")).toMatchObject({ status: 400, body: { error: "invalid_config" } });
    expect(await rig.countRows()).toBe(before);
  });
});

describe("evaluating", () => {
  it("200: the output of the matching row, unchanged, and the audit", async () => {
    await post(rule("evaluated", { published: true }));
    const { status, body } = await evaluate("evaluated", { inputs: { amount: 500 } });
    expect(status).toBe(200);
    expect(body).toEqual({
      output: { branch: "lead", text: "${amount}" },
      audit: {
        rule_id: "evaluated",
        version: 1,
        matched_row: 0,
        used_default: false,
        rows: [{ index: 0, matched: true }],
        duration_ms: expect.any(Number),
      },
    });
  });

  it("the default is used, and the audit says so", async () => {
    await post(rule("defaulted", { published: true, default_output: { branch: "none" } }));
    expect(await evaluate("defaulted", { inputs: { amount: 1, vip: false } })).toMatchObject({
      status: 200,
      body: { output: { branch: "none" }, audit: { matched_row: null, used_default: true } },
    });
  });

  it("the latest published version is used, or the requested one if it is published", async () => {
    await post(rule("two", { published: true }));
    await post(rule("two", { published: true, default_output: { v: 2 } }));
    await post(rule("two", { default_output: { v: 3 } }));
    const inputs = { amount: 1, vip: false };
    expect((await evaluate("two", { inputs })).body.output).toEqual({ v: 2 });
    expect((await evaluate("two", { inputs, version: 1 })).status).toBe(422);
    expect((await evaluate("two", { inputs, version: 3 })).status).toBe(404);
    await rig.call("POST", "/api/v1/rules/two/versions/2/unpublish");
    expect((await evaluate("two", { inputs })).status).toBe(422);
  });

  it("a draft that was replaced is evaluated with its new content", async () => {
    await post(rule("draft", { version: 1, default_output: { old: true } }));
    await post(rule("draft", { version: 1, default_output: { old: false }, published: true }));
    const inputs = { amount: 1, vip: false };
    expect((await evaluate("draft", { inputs })).body.output).toEqual({ old: false });
  });

  it("404: the rule does not exist, is not published, or belongs to another tenant", async () => {
    await post(rule("unpublished"));
    await post(rule("theirs", { published: true, tenant_id: "t1" }));
    const inputs = { amount: 500 };
    for (const [id, more] of [
      ["nowhere", {}],
      ["unpublished", {}],
      ["unpublished", { version: 1 }],
      ["theirs", {}],
      ["theirs", { tenant_id: "t2" }],
    ] as const)
      expect(await evaluate(id, { inputs, ...more })).toMatchObject({ status: 404, body: { error: "not_found" } });
    expect((await evaluate("theirs", { inputs, tenant_id: "t1" })).status).toBe(200);
    const tenant = "0190A000-0000-7000-8000-0000000000AA";
    await post(rule("ours", { published: true, tenant_id: tenant }));
    for (const tenant_id of [tenant, tenant.toLowerCase()])
      expect((await evaluate("ours", { inputs, tenant_id })).status, tenant_id).toBe(200);
  });

  it("422: no row matches, or a condition fails", async () => {
    await post(rule("failing", { published: true }));
    const none = await evaluate("failing", { inputs: { amount: 1, vip: false } });
    expect(none).toMatchObject({ status: 422, body: { error: "unprocessable" } });
    expect(none.body.message).toMatch(/^no_decision_row_matched/);
    const broken = await evaluate("failing", { inputs: { amount: 1 } });
    expect(broken).toMatchObject({ status: 422, body: { error: "unprocessable" } });
    expect(broken.body.message).toMatch(
      /^the rule cannot be evaluated: missing key "vip": .* in spec\.rows\[1\]\.when$/,
    );
    const typed = await evaluate("failing", { inputs: { amount: "secret" } });
    expect(typed.status).toBe(422);
    expect(JSON.stringify(typed.body)).not.toContain("secret");
  });

  it("400: inputs must be an object; unknown members are ignored and named", async () => {
    for (const body of [{}, { inputs: [] }, { inputs: null }, { inputs: {}, version: "1" }, { inputs: {}, version: 0 }])
      expect(await evaluate("failing", body), JSON.stringify(body)).toMatchObject({
        status: 400,
        body: { error: "bad_request" },
      });
    expect((await rig.call("POST", "/api/v1/rules/failing/evaluate")).status).toBe(400);
    const extra = await evaluate("failing", { inputs: { amount: 500 }, dry: true });
    expect(extra.headers["saga-ignored-fields"]).toBe("dry");
  });
});
