// The undo list of a run: what it owes if it rolls back, and what became of each entry. The acts on an undo that failed stand beside it.
import { Link } from "wouter";
import type { List, Run, UndoEntry } from "../browser/resources.js";
import { Answer } from "../parts/notes.js";
import { Pager, useOffset } from "../parts/pager.js";
import { Scroll } from "../parts/scroll.js";
import { type Names, nameIn } from "../story/words.js";
import { Acts } from "./acts.js";
import { useExplanation, useOfRun } from "./data.js";
import type { TabProps } from "./moment.js";
import { failedIn, type Said, saidOf } from "./undo-words.js";

export function UndoTab({ run, definition }: TabProps) {
  const undos = useOfRun<List<UndoEntry>>(run, "undo", { limit: 100, offset: useOffset("page") });
  const can = useExplanation(run).data?.can ?? [];
  return (
    <>
      <Acts run={run} can={can} only={["compensations/retry", "compensations/skip"]} />
      <Answer of={undos}>
        {(list) =>
          list.total === 0 ? (
            <p className="quiet">The run has nothing to undo.</p>
          ) : (
            <>
              <p className="quiet">
                In the order of completion. A rollback takes them from the last to the first. Behind them is what the
                run's children left undone.
              </p>
              <Entries list={list} run={run} names={definition?.names} />
              <Pager of={list} name="page" label="undo entries" />
            </>
          )
        }
      </Answer>
    </>
  );
}

interface EntriesProps {
  readonly list: List<UndoEntry>;
  readonly run: Run;
  readonly names: Names;
}

function Entries({ list, run, names }: EntriesProps) {
  const failed = failedIn(list, run);
  return (
    <Scroll label="Undo entries">
      <table>
        <thead>
          <tr>
            <th scope="col">Number</th>
            <th scope="col">Step</th>
            <th scope="col">Undone by</th>
            <th scope="col">State</th>
            <th scope="col">Of child</th>
          </tr>
        </thead>
        <tbody>
          {list.items.map((entry) => (
            <Row key={entry.ordinal} entry={entry} said={saidOf(entry, run, failed)} names={names} />
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Row({ entry, said, names }: { entry: UndoEntry; said: Said; names: Names }) {
  const { ordinal, step_id, action, child_run_id } = entry;
  return (
    <tr>
      <td>{ordinal}</td>
      <td title={step_id}>{nameIn(names, step_id)}</td>
      <td>{action ?? "–"}</td>
      <td className={`undo-state ${said.state}`}>{said.words}</td>
      <td>{child_run_id && <Link href={`/runs/${child_run_id}`}>{child_run_id}</Link>}</td>
    </tr>
  );
}
