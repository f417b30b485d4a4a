// Whether a run could be moved to a version, asked without moving it. The move itself is an act like the others. An answer is about the values
// that were asked for: other values have a check of their own.
import { useMutation } from "@tanstack/react-query";
import type { Values } from "../acts/values.js";
import { part, post } from "../browser/client.js";
import type { Run } from "../browser/resources.js";
import { Refused } from "../parts/notes.js";

interface Checked {
  readonly allowed: boolean;
  readonly reasons: readonly { readonly path?: string; readonly message: string }[];
}

interface Props {
  readonly run: Run;
  readonly values: Values;
  readonly onAnswer: (allowed: boolean) => void;
}

export function MigrationCheck({ run, values, onAnswer }: Props) {
  const check = useMutation({
    mutationFn: () => post<Checked>(`/sagas/${part(run.id)}/migrate`, { ...values, check: true }),
    onSuccess: ({ allowed }) => onAnswer(allowed),
  });
  return (
    <>
      <p className="quiet">The run is of version {run.version}.</p>
      <button type="button" disabled={values.version === undefined || check.isPending} onClick={() => check.mutate()}>
        Check
      </button>
      {check.error && <Refused error={check.error} />}
      {check.data && <Answer checked={check.data} />}
    </>
  );
}

function Answer({ checked: { allowed, reasons } }: { checked: Checked }) {
  if (allowed) return <p role="status">The run can be moved to this version.</p>;
  return (
    <div className="refused" role="status">
      <p>The run cannot be moved:</p>
      <ul>
        {reasons.map(({ path = "", message }) => (
          <li key={`${path} ${message}`}>
            <code>{path}</code> {message}
          </li>
        ))}
      </ul>
    </div>
  );
}
