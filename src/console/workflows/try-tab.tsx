// A version tried with mocks: a rehearsal, drawn on the graph. Nothing is stored or sent, unless it is started as a dry run instead.
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { part, post } from "../browser/client.js";
import type { Workflow } from "../browser/resources.js";
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
  return (
    <div className="tried">
      <section aria-labelledby="rehearse">
        <h2 id="rehearse">Rehearse version {version}</h2>
        <Asking workflow={workflow} isBusy={rehearsal.isPending} onAsk={rehearsal.mutate} />
        {rehearsal.error && <Refused error={rehearsal.error} />}
      </section>
      <RehearsalView workflow={workflow} rehearsed={rehearsal.data} />
    </div>
  );
}

interface AskingProps {
  readonly workflow: Workflow;
  readonly isBusy: boolean;
  readonly onAsk: (asked: Asked) => void;
}

function Asking({ workflow, isBusy, onAsk }: AskingProps) {
  const [inputs, setInputs] = useState("{}");
  const [mocks, setMocks] = useState("{}");
  const [read, readMocks] = [parseObject(inputs), parseObject(mocks)];
  const isOff = isBusy || read.fault !== undefined || readMocks.fault !== undefined;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onAsk({ inputs: read.value, mocks: readMocks.value });
  };
  return (
    <form onSubmit={submit}>
      <JsonField label="Inputs (JSON)" text={inputs} fault={read.fault} onChange={setInputs} />
      <JsonField label="Mocks by step (JSON)" text={mocks} fault={readMocks.fault} hint={HINT} onChange={setMocks} />
      <AddMock steps={mockable(workflow.steps)} mocks={readMocks.value as Mocks | undefined} onAdd={setMocks} />
      <div className="row">
        <button type="submit" className="primary" disabled={isOff}>
          Rehearse
        </button>
        {workflow.published && <DryRun workflow={workflow} inputs={read.value} isOff={isOff} />}
      </div>
    </form>
  );
}

const HINT = "A step without a mock answers with its default. Add ~undo to a step's id to mock its undo.";

function AddMock({
  steps,
  mocks,
  onAdd,
}: {
  steps: readonly string[];
  mocks: Mocks | undefined;
  onAdd: (text: string) => void;
}) {
  const [step, setStep] = useState(steps[0] ?? "");
  if (steps.length === 0) return null;
  const add = (mock: unknown) => () => mocks && onAdd(withMock(mocks, step, mock));
  return (
    <div className="row">
      <label>
        Step
        <select value={step} onChange={({ target }) => setStep(target.value)}>
          {steps.map((id) => (
            <option key={id}>{id}</option>
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

function DryRun({
  workflow: { id, version, tenant_id },
  inputs,
  isOff,
}: {
  workflow: Workflow;
  inputs: unknown;
  isOff: boolean;
}) {
  const start = useStart();
  const body = { workflow_id: id, version, tenant_id, inputs, dry_run: true };
  return (
    <>
      <button type="button" disabled={isOff || start.isPending} onClick={() => start.mutate(body)}>
        Start as a dry run
      </button>
      {start.error && <Refused error={start.error} />}
    </>
  );
}
