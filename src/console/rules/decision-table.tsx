// A decision table drawn as a table: a row for each condition, a column for each member of the outputs. After a trial each row says how it fared.
import { memo, useEffect, useRef } from "react";
import type { Rule } from "../browser/resources.js";
import { Scroll } from "../parts/scroll.js";
import { cell, columnsOf, type Evaluated, type Output, type Verdict, verdicts } from "./table.js";

interface Props {
  readonly spec: Rule["spec"];
  readonly evaluated: Evaluated | undefined;
}

/** A table may have a thousand rows: it is not drawn again while somebody types. */
export const DecisionTable = memo(({ spec, evaluated }: Props) => {
  const columns = columnsOf(spec);
  const said = evaluated && verdicts(spec.rows.length, evaluated);
  return (
    <Scroll className="decision" label="Rows of the decision table">
      <table>
        <Head columns={columns} isTried={said !== undefined} />
        <tbody>
          {numbered(spec).map(({ place, when, then, index }) => (
            <Row key={place} {...{ place, when, then, columns }} verdict={said?.[index]} />
          ))}
          <Default {...{ spec, columns, evaluated }} />
        </tbody>
      </table>
    </Scroll>
  );
});

const numbered = ({ rows }: Rule["spec"]) => rows.map((row, index) => ({ ...row, index, place: String(index + 1) }));

function Head({ columns, isTried }: { columns: readonly string[]; isTried: boolean }) {
  return (
    <thead>
      <tr>
        <th scope="col">Row</th>
        <th scope="col">When</th>
        {columns.map((name) => (
          <th scope="col" key={name}>
            {name}
          </th>
        ))}
        {isTried && <th scope="col">This trial</th>}
      </tr>
    </thead>
  );
}

function Default({ spec, columns, evaluated }: Props & { columns: readonly string[] }) {
  if (!spec.default_output) return null;
  const verdict = evaluated && (evaluated.audit.used_default ? "matched" : "not tried");
  return <Row place="default" then={spec.default_output} columns={columns} verdict={verdict} />;
}

interface RowProps {
  readonly place: string;
  readonly when?: string;
  readonly then: Output;
  readonly columns: readonly string[];
  readonly verdict: Verdict | undefined;
}

function Row({ place, when, then, columns, verdict }: RowProps) {
  const row = useRef<HTMLTableRowElement>(null);
  const isHit = verdict === "matched";
  useEffect(() => {
    if (isHit) row.current?.scrollIntoView({ block: "nearest" });
  }, [isHit]);
  return (
    <tr ref={row} className={isHit ? "hit" : verdict === "did not match" ? "missed" : undefined}>
      <th scope="row">{place}</th>
      <td>{when === undefined ? <span className="quiet">no row matched</span> : <code>{when}</code>}</td>
      {columns.map((name) => (
        <td key={name}>{cell(then, name)}</td>
      ))}
      {verdict && <td className="verdict">{inWords(verdict, when === undefined)}</td>}
    </tr>
  );
}

const inWords = (verdict: Verdict, isDefault: boolean): string =>
  isDefault ? (verdict === "matched" ? "used" : "not used") : verdict;
