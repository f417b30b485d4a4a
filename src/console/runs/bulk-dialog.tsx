// Acting on all runs that the filters match: the choice of the act, what it would hit, a confirmation. The job that follows has a page of
// its own.
import { type FormEvent, useState } from "react";
import { useLocation } from "wouter";
import { useCommand } from "../browser/command.js";
import { Dialog } from "../parts/dialog.js";
import { Refused } from "../parts/notes.js";
import { ActFields } from "./act-fields.js";
import { ACTS, type Act, type Params, paramsOf } from "./acts.js";
import { bulkFilterOf } from "./filters.js";
import { Preview } from "./preview.js";

const STANDARD_LIMIT = 10_000;
const MAX_LIMIT = 100_000;

interface Asked {
  readonly act: Act;
  readonly params: Params;
  readonly limit: number;
}

const [FIRST] = ACTS as readonly [Act, ...Act[]];

/** The filters are those at the moment of the click: what the person sees in the preview is what the job is asked for. */
export function BulkDialog({ search, onClose }: { search: URLSearchParams; onClose: () => void }) {
  const [asked, setAsked] = useState<Asked>({ act: FIRST, params: {}, limit: STANDARD_LIMIT });
  const [isSure, setSure] = useState(false);
  return (
    <Dialog title="Act on all runs that match" onClose={onClose}>
      {isSure ? (
        <Confirm asked={asked} search={search} onBack={() => setSure(false)} />
      ) : (
        <Choice asked={asked} onChange={setAsked} onDone={() => setSure(true)} onClose={onClose} />
      )}
    </Dialog>
  );
}

interface ChoiceProps {
  readonly asked: Asked;
  readonly onChange: (asked: Asked) => void;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function Choice({ asked, onChange, onDone, onClose }: ChoiceProps) {
  const { act, params, limit } = asked;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onDone();
  };
  return (
    <form className="act" onSubmit={submit}>
      <ActChoice act={act} onChange={(act) => onChange({ ...asked, act, params: {} })} />
      <p className="quiet">For each run, this will {act.does}.</p>
      <ActFields
        key={act.name}
        fields={act.fields}
        value={params}
        onChange={(params) => onChange({ ...asked, params })}
      />
      <label>
        At most this many runs
        <input
          type="number"
          required
          min={1}
          max={MAX_LIMIT}
          value={limit}
          onChange={({ target }) => onChange({ ...asked, limit: target.valueAsNumber })}
        />
      </label>
      <div className="row">
        <button type="submit" className="primary">
          Preview
        </button>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </form>
  );
}

const ActChoice = ({ act, onChange }: { act: Act; onChange: (act: Act) => void }) => (
  <label>
    Action
    <select value={act.name} onChange={({ target }) => onChange(ACTS[target.selectedIndex] ?? FIRST)}>
      {ACTS.map(({ name }) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  </label>
);

interface ConfirmProps {
  readonly asked: Asked;
  readonly search: URLSearchParams;
  readonly onBack: () => void;
}

function Confirm({ asked: { act, params, limit }, search, onBack }: ConfirmProps) {
  const [, navigate] = useLocation();
  const command = useCommand<{ bulk_id: string }>(({ bulk_id: id }) => navigate(`/bulk/${id}`));
  const create = () =>
    command.send("/bulk", { filter: bulkFilterOf(search), action: act.name, params: paramsOf(act, params), limit });
  return (
    <div className="act">
      <p>
        <b>{act.name}</b>: for each of these runs, this will {act.does}.
      </p>
      <Preview search={search} limit={limit} />
      {command.error && <Refused error={command.error} />}
      <div className="row">
        <button type="button" className="danger" disabled={command.isPending} onClick={create}>
          Yes, {act.name} all of them
        </button>
        <button type="button" onClick={onBack}>
          Back
        </button>
      </div>
    </div>
  );
}
