// A run started by a form that is drawn from the version's input_schema. The key of the start stays the same while it is tried.
import { useState } from "react";
import { useLocation } from "wouter";
import { useAct } from "../browser/act.js";
import { ApiError, post } from "../browser/client.js";
import type { Workflow } from "../browser/resources.js";
import { SchemaForm } from "../parts/form.js";
import { Refused } from "../parts/notes.js";
import { labelsOf, type Options, startBody } from "./start.js";

const NONE: Options = {
  ...{ entrypoint: "", businessKey: "", onConflict: "", priority: "", fairnessKey: "", labels: "", dryRun: false },
};

export default function StartTab({ workflow }: { workflow: Workflow }) {
  if (workflow.published) return <StartForm workflow={workflow} />;
  return (
    <p>
      Version {workflow.version} is not published, so no run can be started with it. An author publishes it in the tab
      Versions; the tab Try tries it.
    </p>
  );
}

function StartForm({ workflow }: { workflow: Workflow }) {
  const [options, setOptions] = useState(NONE);
  const start = useStart();
  const { fault } = labelsOf(options.labels);
  const change = (changes: Partial<Options>) => setOptions((before) => ({ ...before, ...changes }));
  const details = start.error instanceof ApiError ? start.error.details : undefined;
  return (
    <section aria-labelledby="start" className="start">
      <h2 id="start">
        Start version {workflow.version} of {workflow.name}
      </h2>
      {start.error && <Refused error={start.error} />}
      <SchemaForm
        schema={workflow.input_schema ?? undefined}
        label="Inputs (JSON)"
        submitLabel={options.dryRun ? "Start the dry run" : "Start"}
        problems={details}
        at="$.inputs"
        isBusy={start.isPending || fault !== undefined}
        onSubmit={(inputs) => start.mutate(startBody(workflow, inputs, options))}
      >
        <OptionFields workflow={workflow} options={options} fault={fault} change={change} />
      </SchemaForm>
    </section>
  );
}

/** Leads to the run. */
export function useStart() {
  const [, navigate] = useLocation();
  return useAct((body: object, idempotencyKey) => post<{ run_id: string }>("/sagas/start", body, { idempotencyKey }), {
    changes: ["runs", "stats"],
    onDone: ({ run_id: id }) => navigate(`/runs/${id}`),
  });
}

interface FieldsProps {
  readonly workflow: Workflow;
  readonly options: Options;
  readonly fault: string | undefined;
  readonly change: (changes: Partial<Options>) => void;
}

function OptionFields({ workflow, options, fault, change }: FieldsProps) {
  return (
    <fieldset className="options">
      <legend>About the run</legend>
      <Entrypoints names={Object.keys(workflow.entrypoints ?? {})} value={options.entrypoint} change={change} />
      <label>
        Business key
        <input
          value={options.businessKey}
          maxLength={2 * 256}
          onChange={({ target }) => change({ businessKey: target.value })}
        />
      </label>
      {options.businessKey !== "" && (
        <label>
          While another run holds this key
          <select value={options.onConflict} onChange={({ target }) => change({ onConflict: target.value })}>
            <option value="">start, and hold nothing</option>
            <option value="reject">refuse the start</option>
            <option value="return">show that run</option>
            <option value="cancel_old">start, and cancel that run</option>
          </select>
        </label>
      )}
      <label>
        Priority
        <select value={options.priority} onChange={({ target }) => change({ priority: target.value })}>
          <option value="1">1, the highest</option>
          <option value="2">2</option>
          <option value="">3, the usual one</option>
          <option value="4">4</option>
          <option value="5">5, the lowest</option>
        </select>
      </label>
      <label>
        Fairness key
        <input
          value={options.fairnessKey}
          maxLength={2 * 256}
          onChange={({ target }) => change({ fairnessKey: target.value })}
        />
      </label>
      <label>
        Labels, one name=value a line
        <textarea rows={2} value={options.labels} onChange={({ target }) => change({ labels: target.value })} />
      </label>
      {fault !== undefined && <p className="fault">{fault}</p>}
      <label className="check">
        <input type="checkbox" checked={options.dryRun} onChange={({ target }) => change({ dryRun: target.checked })} />
        Dry run: nothing outside is changed
      </label>
    </fieldset>
  );
}

interface EntrypointsProps extends Pick<FieldsProps, "change"> {
  readonly names: readonly string[];
  readonly value: string;
}

function Entrypoints({ names, value, change }: EntrypointsProps) {
  if (names.length === 0) return null;
  return (
    <label>
      Begin at
      <select value={value} onChange={({ target }) => change({ entrypoint: target.value })}>
        <option value="">the start</option>
        {names.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}
