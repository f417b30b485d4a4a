// Acting on all runs that the filters match: the choice of the act, what it would hit, a confirmation. The job that follows has a page of
// its own.
import { type FormEvent, useState } from "react";
import { useLocation } from "wouter";
import { ACTS, type Act, bulkActsFor, fieldsOf } from "../acts/acts.js";
import { ActFields } from "../acts/fields.js";
import { isMeant, MeantWord } from "../acts/meant-word.js";
import { paramsOf, type Texts, valuesOf } from "../acts/values.js";
import { useMay } from "../browser/access.js";
import { useAct } from "../browser/act.js";
import { post } from "../browser/client.js";
import { Dialog } from "../parts/dialog.js";
import { Refused } from "../parts/notes.js";
import { bulkFilterOf } from "./filters.js";
import { Preview } from "./preview.js";

const STANDARD_LIMIT = 10_000;
const MAX_LIMIT = 100_000;

interface Asked {
  readonly act: Act;
  readonly texts: Texts;
  readonly limit: number;
}

const [FIRST] = ACTS as readonly [Act, ...Act[]];

/** The filters are those at the moment of the click: what the person sees in the preview is what the job is asked for. */
export function BulkDialog({ search, onClose }: { search: URLSearchParams; onClose: () => void }) {
  const [asked, setAsked] = useState<Asked>({ act: FIRST, texts: {}, limit: STANDARD_LIMIT });
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
  const { act, texts } = asked;
  const fields = fieldsOf(act, "bulk");
  const { faults } = valuesOf(fields, texts);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (Object.keys(faults).length === 0) onDone();
  };
  return (
    <form className="act" onSubmit={submit}>
      <ActChoice act={act} onChange={(act) => onChange({ ...asked, act, texts: {} })} />
      <p className="quiet">{act.words}</p>
      <ActFields {...{ fields, texts, faults }} onChange={(texts) => onChange({ ...asked, texts })} />
      <Limit limit={asked.limit} onChange={(limit) => onChange({ ...asked, limit })} />
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

function ActChoice({ act, onChange }: { act: Act; onChange: (act: Act) => void }) {
  const acts = bulkActsFor(useMay());
  return (
    <label>
      Action
      <select value={act.name} onChange={({ target }) => onChange(acts[target.selectedIndex] ?? FIRST)}>
        {acts.map(({ name, title }) => (
          <option key={name} value={name}>
            {title}
          </option>
        ))}
      </select>
    </label>
  );
}

const Limit = ({ limit, onChange }: { limit: number; onChange: (limit: number) => void }) => (
  <label>
    At most this many runs
    <input
      type="number"
      required
      min={1}
      max={MAX_LIMIT}
      value={Number.isNaN(limit) ? "" : limit}
      onChange={({ target }) => onChange(target.valueAsNumber)}
    />
  </label>
);

interface ConfirmProps {
  readonly asked: Asked;
  readonly search: URLSearchParams;
  readonly onBack: () => void;
}

function Confirm({ asked: { act, texts, limit }, search, onBack }: ConfirmProps) {
  const job = useCreate();
  const [typed, setTyped] = useState("");
  const isReady = !act.isForGood || isMeant(typed);
  const params = paramsOf(valuesOf(fieldsOf(act, "bulk"), texts).values);
  const create = () => job.mutate({ filter: bulkFilterOf(search), action: act.name, params, limit });
  return (
    <div className="act">
      <p>
        <b>{act.title}</b>, for each of these runs: {act.words}
      </p>
      <Preview search={search} limit={limit} />
      {act.isForGood && <MeantWord typed={typed} onChange={setTyped} />}
      {job.error && <Refused error={job.error} />}
      <div className="row">
        <button type="button" className="danger" disabled={job.isPending || !isReady} onClick={create}>
          Yes: {act.title}, all of them
        </button>
        <button type="button" onClick={onBack}>
          Back
        </button>
      </div>
    </div>
  );
}

/** Leads to the job. */
function useCreate() {
  const [, navigate] = useLocation();
  return useAct((body: object, idempotencyKey) => post<{ bulk_id: string }>("/bulk", body, { idempotencyKey }), {
    changes: ["bulk"],
    onDone: ({ bulk_id: id }) => navigate(`/bulk/${id}`),
  });
}
