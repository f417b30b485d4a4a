// The acts that may be done now, and by this principal, as buttons; each opens a dialog that says what it will do. What is possible, `explain` says.
import { type ReactNode, useState } from "react";
import { Link } from "wouter";
import { type Act, actsFor } from "../acts/acts.js";
import { useMay } from "../browser/access.js";
import type { Run } from "../browser/resources.js";
import { ActDialog } from "./act-dialog.js";
import type { Possible } from "./data.js";

interface Props {
  readonly run: Run;
  readonly can: readonly Possible[];
  readonly only?: readonly Possible[];
  /** Further ones, which `explain` does not know. */
  readonly children?: ReactNode;
}

export function Acts({ run, can, only, children }: Props) {
  const [open, setOpen] = useState<Act>();
  const may = useMay();
  const possible = actsFor((name) => can.includes(name) && (only === undefined || only.includes(name)), may);
  return (
    <div className="row acts">
      {possible.map((act) => (
        <button
          key={act.name}
          type="button"
          className={act.isDangerous ? "danger" : undefined}
          onClick={() => setOpen(act)}
        >
          {act.button}
        </button>
      ))}
      {can.includes("submit") && !only && may("submitUserTask") && (
        <Link className="button" href={`/tasks?run_id=${run.id}`}>
          Submit the task
        </Link>
      )}
      {children}
      {open && <ActDialog key={open.name} run={run} act={open} onClose={() => setOpen(undefined)} />}
    </div>
  );
}
