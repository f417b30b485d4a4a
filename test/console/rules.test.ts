// The pages of rules in a real browser, against a real service; and what they draw from, alone. How a rule is evaluated is tested with the machine.
// @module-tag both
import { beforeAll, describe, expect, it } from "vitest";
import { cell, columnsOf, namesIn, type Spec, sentence, verdicts } from "../../src/console/rules/table.js";
import { describeWithBrowser, openPage, screenshot } from "../harness/browser.js";
import type { ServiceProcess } from "../harness/service.js";
import { call, startService } from "./runs-service.js";

const SPEC: Spec = {
  rows: [
    { when: "weight > 30", then: { branch: "freight" } },
    { when: "inputs.country in ['DE', 'AT'] && weight <= 2", then: { branch: "letter", price: 2.5 } },
    { when: "weight < 0", then: { branch: "nothing" } },
  ],
  default_output: { branch: "parcel", insured: true },
};
const RULE = {
  rule_id: "shipping",
  name: "How to ship",
  rule_type: "decision_table",
  spec: { hit_policy: "first", ...SPEC },
};

const audit = (matched_row: number | null, tried: number) => ({
  output: {},
  audit: {
    ...{ version: 1, matched_row, used_default: matched_row === null, duration_ms: 0.1 },
    rows: Array.from({ length: tried }, (_, index) => ({ index, matched: index === matched_row })),
  },
});

describe("a decision table", () => {
  it("has a column for each member that an output has, in the order of the rows", () => {
    expect(columnsOf(SPEC)).toEqual(["branch", "price", "insured"]);
    expect([cell({ a: "x" }, "a"), cell({ a: 2.5 }, "a"), cell({ a: [1] }, "a"), cell({}, "a")]).toEqual([
      ...["x", "2.5", "[1]", ""],
    ]);
  });

  it("says of each row whether it matched, did not match or was not tried", () => {
    expect(verdicts(3, audit(1, 2))).toEqual(["did not match", "matched", "not tried"]);
    expect(sentence(SPEC, audit(1, 2))).toContain("Row 2 matched: inputs.country");
    expect(sentence(SPEC, audit(null, 3))).toBe("None of the 3 rows matched, so the default is the output.");
  });

  it("names the inputs of its conditions, and neither texts, functions nor members of inputs' members", () => {
    expect(namesIn(SPEC)).toEqual(["weight", "country"]);
    const rows = [{ when: "size(order.lines) > 1 && name.startsWith('weight') || has(inputs.vip)", then: {} }];
    expect(namesIn({ rows })).toEqual(["order", "name", "vip"]);
  });
});

describeWithBrowser("the pages of rules", { tags: "long" }, () => {
  let service: ServiceProcess;

  beforeAll(async () => {
    ({ service } = await startService());
    await call(service, "POST", "/rules", { ...RULE, published: true });
    await call(service, "POST", "/rules", { ...RULE, rule_id: "draft", name: "Not yet" });
    await call(service, "POST", "/rules", {
      ...{ ...RULE, rule_id: "strict", name: "Without a default", published: true },
      spec: { hit_policy: "first", rows: [{ when: "weight > 30", then: { branch: "freight" } }] },
    });
  });

  const tried = async (path: string, inputs: string) => {
    const { page, faults } = await openPage(service.url, path);
    await page.getByLabel("Inputs (JSON)").fill(inputs);
    await page.getByRole("button", { name: "Try" }).click();
    return { page, faults };
  };

  it("tries a rule: the hit row is lit, the rows before it are said to be tried, and the output is shown", async () => {
    const { page, faults } = await tried("/console/rules/shipping", '{"weight": 1, "country": "AT"}');
    const hit = page.locator("tr.hit");
    await hit.waitFor();
    expect(await hit.textContent()).toMatch(/^2.*letter.*2\.5.*matched$/);
    expect(await page.locator("td.verdict").allTextContents()).toEqual([
      ...["did not match", "matched", "not tried", "not used"],
    ]);
    expect(await page.getByRole("status").textContent()).toContain("Row 2 matched");
    expect(await page.getByLabel("Output").textContent()).toContain('"price": 2.5');
    await screenshot(page, "rule-hit");
    await page.setViewportSize({ width: 390, height: 844 });
    const padding = "parseFloat(getComputedStyle(document.querySelector('tr.hit')).paddingLeft)";
    expect(await page.evaluate<number>(padding), "a row keeps away from the frame on a phone").toBeGreaterThan(8);
    expect(faults).toEqual([]);
  });

  it("lights the default where no row matches", async () => {
    const { page } = await tried("/console/rules/shipping", '{"weight": 5, "country": "FR"}');
    await page.locator("tr.hit").waitFor();
    expect(await page.locator("tr.hit").textContent()).toMatch(/^default.*parcel.*used$/);
  });

  it("shows the service's refusal of inputs that no row fits, and a fault of the JSON before it is sent", async () => {
    const { page } = await tried("/console/rules/strict", '{"weight": 5}');
    await page.getByRole("alert").getByText("no_decision_row_matched").waitFor();
    await page.getByLabel("Inputs (JSON)").fill("{weight: 5}");
    await page.getByRole("button", { name: "Try" }).click();
    await page.getByText("This is not JSON").waitFor();
  });

  it("publishes a draft, which can be tried then", async () => {
    const { page } = await openPage(service.url, "/console/rules");
    await page.getByRole("link", { name: "Not yet" }).click();
    await page.getByText("is not published").waitFor();
    await page.getByRole("button", { name: "Publish version 1" }).click();
    await page.getByRole("button", { name: "Unpublish version 1" }).waitFor();
    await page.getByRole("button", { name: "Try" }).waitFor();
  });
});
