// The acts that may be done now, as buttons; each opens a dialog that says what it will do. What is possible, `explain` says.
import { useState } from "react";
import { Link } from "wouter";
import { ACTS, type Act } from "../acts/acts.js";
import type { Run } from "../browser/resources.js";
import { ActDialog } from "./act-dialog.js";
import type { Possible } from "./data.js";

export function Acts({ run, can, only }: { run: Run; can: readonly Possible[]; only?: readonly Possible[] }) {
  const [open, setOpen] = useState<Act>();
  const possible = ACTS.filter(({ name }) => can.includes(name) && (only === undefined || only.includes(name)));
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
      {can.includes("submit") && !only && (
        <Link className="button" href={`/tasks?run_id=${run.id}`}>
          Submit the task
        </Link>
      )}
      {open && <ActDialog key={open.name} run={run} act={open} onClose={() => setOpen(undefined)} />}
    </div>
  );
}
