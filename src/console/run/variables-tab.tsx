// The variables of a run: as they are now, and what each step changed up to the moment. What no audit row has is said to be unknown.

import { useMemo } from "react";
import type { Run } from "../browser/resources.js";
import { STEP_BOOK } from "../browser/step-book.js";
import { Scroll } from "../parts/scroll.js";
import { Json } from "../parts/values.js";
import { type Change, changesOf } from "../story/changes.js";
import type { Story } from "../story/story.js";
import { type Names, nameIn } from "../story/words.js";
import type { Definition } from "./data.js";
import type { Shown, TabProps } from "./moment.js";
import { QueryForm } from "./query-form.js";
import { ShortJson } from "./short-json.js";

const MAX_CHANGES = 500;

export function VariablesTab({ run, read: { story, live }, shown, definition }: TabProps) {
  const isNow = shown.count >= story.rows.length;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the rows grow in place, by live.count
  const changes = useMemo(
    () => (definition ? changesUpTo(story, shown.count, definition) : []),
    [story, shown.count, definition, live.count],
  );
  return (
    <>
      <p className="quiet">
        The audit log has the outputs of steps, but neither the variables that the run began with nor the values that a
        step or a correction wrote. Where a value is not recorded, this page says so; the service has the variables as
        they are now.
      </p>
      <h2>{isNow ? "Now" : "At this moment"}</h2>
      {isNow ? <Json value={run.variables} label="Variables now" /> : <Then changes={changes} run={run} />}
      <h2>Changes</h2>
      <Changes changes={changes} shown={shown} names={definition?.names} />
      <h2>Ask</h2>
      <QueryForm runId={run.id} />
      <h2>Inputs</h2>
      <Json value={run.inputs} label="Inputs" />
      {run.output !== undefined && (
        <>
          <h2>Output</h2>
          <Json value={run.output} label="Output" />
        </>
      )}
    </>
  );
}

const changesUpTo = (story: Story, count: number, { documents }: Definition): readonly Change[] =>
  story.rows.slice(0, count).flatMap((row) => changesOf(row, documents, STEP_BOOK));

/** The last change of each name; names that are there now and had no change yet are of the beginning, or of no row. */
function Then({ changes, run }: { changes: readonly Change[]; run: Run }) {
  const last = new Map(changes.map((change) => [change.name, change]));
  const others = Object.keys(run.variables).filter((name) => !last.has(name));
  return (
    <Scroll label="Variables at the moment">
      <table>
        <caption>Variables at the moment</caption>
        <tbody>
          {[...last.values()]
            .filter(({ how }) => how !== "removed")
            .map((change) => (
              <tr key={change.name}>
                <th scope="row">{change.name}</th>
                <td>
                  <Value change={change} />
                </td>
              </tr>
            ))}
        </tbody>
      </table>
      {others.length > 0 && <p className="quiet">Of the beginning, or set later: {others.join(", ")}.</p>}
    </Scroll>
  );
}

const Value = ({ change: { name, isKnown, value, how } }: { change: Change }) => {
  if (how === "removed") return <span className="quiet">removed</span>;
  if (!isKnown && value === undefined) return <span className="quiet">not recorded</span>;
  return (
    <>
      <ShortJson value={value} label={`The value of ${name}`} />
      {!isKnown && <span className="quiet"> (cut in the audit log)</span>}
    </>
  );
};

function Changes({ changes, shown, names }: { changes: readonly Change[]; shown: Shown; names: Names }) {
  if (changes.length === 0) return <p className="quiet">No step has changed a variable.</p>;
  return (
    <Scroll label="Changes of variables">
      <table>
        <thead>
          <tr>
            <th scope="col">Event</th>
            <th scope="col">Step</th>
            <th scope="col">Variable</th>
            <th scope="col">Value</th>
            <th scope="col">How</th>
          </tr>
        </thead>
        <tbody>
          {changes.slice(-MAX_CHANGES).map((change) => (
            <ChangeRow key={`${change.seq} ${change.name}`} change={change} shown={shown} names={names} />
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function ChangeRow({ change, shown, names }: { change: Change; shown: Shown; names: Names }) {
  return (
    <tr>
      <td>
        <button type="button" className="bare" onClick={() => shown.show(change.seq)}>
          {change.seq}
        </button>
      </td>
      <td title={change.step}>{change.step !== undefined && nameIn(names, change.step)}</td>
      <td>{change.name}</td>
      <td>
        <Value change={change} />
      </td>
      <td className="quiet">{change.how}</td>
    </tr>
  );
}
