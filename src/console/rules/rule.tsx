// A rule: its decision table, its versions, and a trial of it whose hit row is lit. The service evaluates; this page draws.
import { useState } from "react";
import { useParams } from "wouter";
import { useMay } from "../browser/access.js";
import { numberIn, useAddress } from "../browser/address.js";
import type { Rule } from "../browser/resources.js";
import { useTitle } from "../browser/title.js";
import { useDocument } from "../browser/versions.js";
import { Answer } from "../parts/notes.js";
import { Published, Versions } from "../parts/versions.js";
import { DecisionTable } from "./decision-table.js";
import type { Evaluated } from "./table.js";
import { Trial } from "./trial.js";
import "./rules.css";

export default function Page() {
  const { id = "" } = useParams();
  const version = numberIn(useAddress()[0], "version");
  const rule = useDocument<Rule>("rules", id, version);
  useTitle(rule.data?.name ?? id, "Rule");
  return (
    <Answer of={rule} all="rules">
      {(rule) => <Shown key={rule.id} rule={rule} />}
    </Answer>
  );
}

function Shown({ rule }: { rule: Rule }) {
  const [evaluated, setEvaluated] = useState<Evaluated>();
  const may = useMay();
  return (
    <>
      <h1>{rule.name}</h1>
      <p className="quiet">
        <code>{rule.rule_id}</code> · version {rule.version} <Published is={rule.published} /> · the first row that
        matches gives the output
      </p>
      <div className="rule-page">
        <section aria-labelledby="table">
          <h2 id="table">Decision table</h2>
          <DecisionTable spec={rule.spec} evaluated={evaluated} />
        </section>
        {may("evaluateRule") && <Trial rule={rule} evaluated={evaluated} onEvaluated={setEvaluated} />}
      </div>
      <h2>Versions</h2>
      <Versions collection="rules" id={rule.rule_id} shown={rule.version} />
    </>
  );
}
