// The ticks of a past range, looked at and then fired. Which of them have fired already is the service's decision.
import { type FormEvent, useState } from "react";
import { useAct } from "../browser/act.js";
import { part, post } from "../browser/client.js";
import type { Trigger } from "../browser/resources.js";
import { Dialog } from "../parts/dialog.js";
import { Refused } from "../parts/notes.js";
import { counted } from "../parts/plural.js";
import { When } from "../parts/values.js";
import { Buttons } from "./form.js";

interface Range {
  readonly from: string;
  readonly to?: string;
  readonly dry_run?: boolean;
}

interface Backfilled {
  readonly ticks: number;
  readonly fired: number;
  readonly dry_run?: boolean;
  readonly items: readonly { readonly fire_id: string; readonly scheduled_at: string }[];
}

/** A local time of the browser, as the service takes it. */
const instant = (local: string) => new Date(local).toISOString();

export function Backfill({ trigger, onClose }: { trigger: Trigger; onClose: () => void }) {
  const [{ from, to }, setRange] = useState({ from: "", to: "" });
  const ask = useAct((range: Range) => post<Backfilled>(`/triggers/${part(trigger.id)}/backfill`, range), {
    changes: ["triggers"],
  });
  const { data, reset } = ask;
  const range = () => ({ from: instant(from), ...(to !== "" && { to: instant(to) }) });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    ask.mutate({ ...range(), dry_run: true });
  };
  const change = (changes: { from?: string; to?: string }) => {
    setRange({ from, to, ...changes });
    reset();
  };
  return (
    <Dialog title="Fire the ticks of a past range" onClose={onClose}>
      <form onSubmit={submit} className="trigger-form">
        <p>Each tick that has started no run is fired once. A tick that has is left as it is.</p>
        <Moment label="From" value={from} required onChange={(from) => change({ from })} />
        <Moment label="To (empty: now)" value={to} onChange={(to) => change({ to })} />
        {ask.error && <Refused error={ask.error} />}
        {data && <Found found={data} />}
        <Buttons onClose={onClose}>
          {data?.dry_run && data.fired > 0 && (
            <button type="button" className="primary" disabled={ask.isPending} onClick={() => ask.mutate(range())}>
              Fire {counted(data.fired, "tick")}
            </button>
          )}
          <button type="submit" disabled={ask.isPending}>
            Look
          </button>
        </Buttons>
      </form>
    </Dialog>
  );
}

interface MomentProps {
  readonly label: string;
  readonly value: string;
  readonly required?: boolean;
  readonly onChange: (value: string) => void;
}

const Moment = ({ label, onChange, ...rest }: MomentProps) => (
  <label>
    {label}
    <input type="datetime-local" max="9999-12-31T23:59" onChange={({ target }) => onChange(target.value)} {...rest} />
  </label>
);

const SHOWN = 20;

function Found({ found: { ticks, fired, dry_run, items } }: { found: Backfilled }) {
  return (
    <div role="status">
      <p>
        {counted(ticks, "tick")} in the range. {dry_run ? "To be fired" : "Fired"}: {fired}. Fired before:{" "}
        {ticks - fired}.
      </p>
      <ol className="ticks">
        {items.slice(0, SHOWN).map(({ fire_id, scheduled_at }) => (
          <li key={fire_id}>
            <When at={scheduled_at} />
          </li>
        ))}
      </ol>
      {items.length > SHOWN && <p className="quiet">and {items.length - SHOWN} more</p>}
    </div>
  );
}
