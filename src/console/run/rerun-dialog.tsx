// A run started again: the form of its workflow, filled in with the inputs of the first time. The new run is another run; this one stays.
import { useState } from "react";
import { Link } from "wouter";
import type { Act } from "../acts/acts.js";
import { useAct } from "../browser/act.js";
import { ApiError, part, post } from "../browser/client.js";
import type { Run, Workflow } from "../browser/resources.js";
import { useDocument } from "../browser/versions.js";
import { Dialog } from "../parts/dialog.js";
import { SchemaForm } from "../parts/form.js";
import { Answer, Refused } from "../parts/notes.js";
import { RUN_KEY } from "./data.js";
import { VersionChoice } from "./version-choice.js";

interface Started {
  readonly run_id: string;
}

export function RerunDialog({ run, act, onClose }: { run: Run; act: Act; onClose: () => void }) {
  const [version, setVersion] = useState("");
  const workflow = useDocument<Workflow>("workflows", run.workflow_id, version === "" ? undefined : Number(version));
  const rerun = useAct(
    (body: object, idempotencyKey) => post<Started>(`/sagas/${part(run.id)}/rerun`, body, { idempotencyKey }),
    { changes: [RUN_KEY] },
  );
  const send = (inputs: unknown) => rerun.mutate({ ...(version !== "" && { version: Number(version) }), inputs });
  const details = rerun.error instanceof ApiError ? rerun.error.details : [];
  return (
    <Dialog title={act.title} onClose={onClose}>
      <p>{act.words}</p>
      <VersionChoice
        workflowId={run.workflow_id}
        value={version}
        onChange={setVersion}
        none="the latest published one"
      />
      {rerun.error && details.length === 0 && <Refused error={rerun.error} />}
      <Answer of={workflow}>
        {({ version, input_schema }) => (
          <SchemaForm
            key={version}
            schema={input_schema ?? undefined}
            value={run.inputs}
            label="Inputs (JSON)"
            submitLabel={act.title}
            problems={details}
            at="$.inputs"
            isBusy={rerun.isPending || rerun.isSuccess}
            onSubmit={send}
          />
        )}
      </Answer>
      {rerun.data && (
        <p role="status">
          The new run: <Link href={`/runs/${rerun.data.run_id}`}>{rerun.data.run_id}</Link>
        </p>
      )}
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </Dialog>
  );
}
