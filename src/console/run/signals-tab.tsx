// The signals that a run received, and one to send.
import { useState } from "react";
import { ACTS } from "../acts/acts.js";
import { useMay } from "../browser/access.js";
import type { List, Signal } from "../browser/resources.js";
import { Answer } from "../parts/notes.js";
import { Pager, useOffset } from "../parts/pager.js";
import { Scroll } from "../parts/scroll.js";
import { When } from "../parts/values.js";
import { hasEnded } from "../story/counts.js";
import { ActDialog } from "./act-dialog.js";
import { useOfRun } from "./data.js";
import type { TabProps } from "./moment.js";
import { ShortJson } from "./short-json.js";

const SIGNAL = ACTS.find(({ name }) => name === "signal");

export function SignalsTab({ run }: TabProps) {
  const signals = useOfRun<List<Signal>>(run, "signals", { limit: 50, offset: useOffset("page") });
  const [isSending, setIsSending] = useState(false);
  const may = useMay();
  return (
    <>
      {!hasEnded(run) && may("signalSaga") && (
        <p>
          <button type="button" onClick={() => setIsSending(true)}>
            Send a signal …
          </button>
        </p>
      )}
      {isSending && SIGNAL && <ActDialog run={run} act={SIGNAL} onClose={() => setIsSending(false)} />}
      <Answer of={signals}>{(list) => <Signals list={list} />}</Answer>
    </>
  );
}

function Signals({ list }: { list: List<Signal> }) {
  if (list.total === 0) return <p className="quiet">The run has received no signal.</p>;
  return (
    <>
      <Scroll label="Received signals">
        <table>
          <thead>
            <tr>
              <th scope="col">Signal</th>
              <th scope="col">Received</th>
              <th scope="col">Taken</th>
              <th scope="col">Payload</th>
            </tr>
          </thead>
          <tbody>
            {list.items.map((signal) => (
              <tr key={signal.id}>
                <td>{signal.signal_name}</td>
                <td>
                  <When at={signal.received_at} />
                </td>
                <td>{signal.consumed_at ? <When at={signal.consumed_at} /> : "not yet"}</td>
                <td>
                  <ShortJson value={signal.payload} label={`The payload of ${signal.signal_name}`} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <Pager of={list} name="page" label="signals" />
    </>
  );
}
