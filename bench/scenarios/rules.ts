// Evaluations of a rule of a hundred rows; each row is the match of every hundredth evaluation.
import { RULE } from "../workloads.js";
import type { Scenario } from "./scenario.js";

const rules: Scenario = {
  ...{
    name: "rules",
    title: "A rule of 100 rows",
    unit: "evaluations",
    count: 6_000,
    concurrency: 64,
    kind: "operations",
  },
  async play(stage) {
    await stage.api.post("/api/v1/rules", RULE);
    await stage.load("evaluation", async (nth) => {
      const body = { inputs: { amount: nth % RULE.spec.rows.length } };
      await stage.api.post(`/api/v1/rules/${RULE.rule_id}/evaluate`, body);
    });
  },
};

export const RULES = [rules];
