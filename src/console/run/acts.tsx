// The acts that may be done now, as buttons; each opens a dialog that says what it will do. What is possible, `explain` says.
import { useState } from "react";
import { Link } from "wouter";
import type { Run } from "../browser/resources.js";
import { ActDialog } from "./act-dialog.js";
import { ACT_FORMS, type ActForm } from "./act-forms.js";
import type { Act } from "./data.js";

export function Acts({ run, can, only }: { run: Run; can: readonly Act[]; only?: readonly Act[] }) {
  const [open, setOpen] = useState<ActForm>();
  const possible = ACT_FORMS.filter(({ name }) => can.includes(name) && (only === undefined || only.includes(name)));
  return (
    <div className="row acts">
      {possible.map((form) => (
        <button
          key={form.name}
          type="button"
          className={form.isDangerous ? "danger" : undefined}
          onClick={() => setOpen(form)}
        >
          {form.button}
        </button>
      ))}
      {can.includes("submit") && !only && (
        <Link className="button" href={`/tasks?run_id=${run.id}`}>
          Submit the task
        </Link>
      )}
      {open && <ActDialog key={open.name} run={run} form={open} onClose={() => setOpen(undefined)} />}
    </div>
  );
}
