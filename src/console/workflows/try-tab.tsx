// A version tried with mocks: a rehearsal, drawn on the graph. Nothing is stored or sent, unless it is started as a dry run instead.

import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, part, post } from "../browser/client.js";
import type { Problem, Workflow } from "../browser/resources.js";
import { STEP_BOOK } from "../browser/step-book.js";
import type { StepNames } from "../graph/names.js";
import { stepNames } from "../graph/names.js";
import { SchemaForm } from "../parts/form.js";
import { JsonField } from "../parts/json-field.js";
import { parseObject } from "../parts/json-text.js";
import { Refused } from "../parts/notes.js";
import { ANSWERING, FAILING, type Mocks, mockable, withMock } from "./mocks.js";
import type { Rehearsed } from "./rehearsal.js";
import { RehearsalView } from "./rehearsal-view.js";
import { useStart } from "./start-tab.js";

interface Asked {
  readonly inputs: unknown;
  readonly mocks: unknown;
}

export default function TryTab({ workflow }: { workflow: Workflow }) {
  const { id, version } = workflow;
  const rehearsal = useMutation({
    mutationFn: (asked: Asked) => post<Rehearsed>(`/workflows/${part(id)}/test`, { ...asked, version }),
  });
  const problems = rehearsal.error instanceof ApiError ? rehearsal.error.details : [];
  return (
    <div className="tried">
      <section aria-labelledby="rehearse">
        <h2 id="rehearse">Rehearse version {version}</h2>
        <Asking {...{ workflow, problems }} isBusy={rehearsal.isPending} onAsk={rehearsal.mutate} />
        {rehearsal.error && problems.length === 0 && <Refused error={rehearsal.error} />}
      </section>
      <RehearsalView workflow={workflow} rehearsed={rehearsal.data} />
    </div>
  );
}

interface AskingProps {
  readonly workflow: Workflow;
  readonly isBusy: boolean;
  readonly problems: readonly Problem[];
  readonly onAsk: (asked: Asked) => void;
}

/** The same form as a start has, because the inputs are the same. */
function Asking({ workflow, isBusy, problems, onAsk }: AskingProps) {
  const { id, version, tenant_id, published, input_schema } = workflow;
  const [mocks, setMocks] = useState("{}");
  const read = parseObject(mocks);
  const dryRun = useStart();
  const startDry = (inputs: unknown) => dryRun.mutate({ workflow_id: id, version, tenant_id, inputs, dry_run: true });
  return (
    <>
      <SchemaForm
        schema={input_schema ?? undefined}
        label="Inputs (JSON)"
        submitLabel="Rehearse"
        problems={problems}
        at="$.inputs"
        isBusy={isBusy || dryRun.isPending || read.fault !== undefined}
        onSubmit={(inputs) => onAsk({ inputs, mocks: read.value })}
        {...(published && { other: { label: "Start as a dry run", onSubmit: startDry } })}
      >
        <JsonField label="Mocks by step (JSON)" text={mocks} fault={read.fault} hint={HINT} onChange={setMocks} />
        <AddMock
          steps={mockable(workflow.steps, STEP_BOOK)}
          names={stepNames(workflow.steps)}
          mocks={read.value as Mocks | undefined}
          onAdd={setMocks}
        />
      </SchemaForm>
      {dryRun.error && <Refused error={dryRun.error} />}
    </>
  );
}

const HINT = "A step without a mock answers with its default. Add ~undo to a step's id to mock its undo.";

interface AddMockProps {
  readonly steps: readonly string[];
  readonly names: StepNames;
  readonly mocks: Mocks | undefined;
  readonly onAdd: (text: string) => void;
}

function AddMock({ steps, names, mocks, onAdd }: AddMockProps) {
  const [step, setStep] = useState(steps[0] ?? "");
  if (steps.length === 0) return null;
  const add = (mock: unknown) => () => mocks && onAdd(withMock(mocks, step, mock));
  return (
    <div className="row">
      <label>
        Step
        <select value={step} onChange={({ target }) => setStep(target.value)}>
          {steps.map((id) => (
            <option key={id} value={id}>
              {names.get(id)}
            </option>
          ))}
        </select>
      </label>
      <button type="button" disabled={!mocks} onClick={add(FAILING)}>
        Let it fail
      </button>
      <button type="button" disabled={!mocks} onClick={add(ANSWERING)}>
        Let it answer
      </button>
    </div>
  );
}
