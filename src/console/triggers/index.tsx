// The triggers, filtered by what the address says, and the way to a new one. What fired and what will is on a trigger's own page.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import { useMay } from "../browser/access.js";
import { useAddress } from "../browser/address.js";
import { get } from "../browser/client.js";
import type { List, Trigger } from "../browser/resources.js";
import { useTitle } from "../browser/title.js";
import { Answer } from "../parts/notes.js";
import { Pager, useOffset } from "../parts/pager.js";
import { Scroll } from "../parts/scroll.js";
import { Tenant, useSeesTenants } from "../parts/tenants.js";
import { When } from "../parts/values.js";
import { occasion } from "./config.js";
import { NewTrigger } from "./form.js";
import { WorkflowLink } from "./workflow-link.js";

export default function Page() {
  useTitle("Triggers");
  const [isNew, setNew] = useState(false);
  const [, navigate] = useLocation();
  const may = useMay();
  return (
    <>
      <div className="row heading">
        <h1>Triggers</h1>
        {may("createTrigger") && (
          <button type="button" className="primary" onClick={() => setNew(true)}>
            New trigger
          </button>
        )}
      </div>
      <Filters />
      <Answer of={useTriggers()}>
        {(page) => (
          <>
            {page.items.length === 0 ? <Nothing /> : <Table triggers={page.items} />}
            <Pager of={page} label="triggers" />
          </>
        )}
      </Answer>
      {isNew && <NewTrigger onClose={() => setNew(false)} onCreated={({ id }) => navigate(`/triggers/${id}`)} />}
    </>
  );
}

function useTriggers() {
  const [parameters] = useAddress();
  const offset = useOffset();
  const [type, enabled, workflow_id] = FILTERS.map((name) => parameters.get(name) ?? "");
  return useQuery({
    queryKey: ["triggers", "list", { type, enabled, workflow_id, offset }],
    queryFn: ({ signal }) => get<List<Trigger>>("/triggers", { query: { type, enabled, workflow_id, offset }, signal }),
    placeholderData: keepPreviousData,
  });
}

const FILTERS = ["type", "enabled", "workflow_id"];

function Nothing() {
  const [parameters] = useAddress();
  const isFiltered = FILTERS.some((name) => parameters.get(name));
  return (
    <p className="quiet">
      {isFiltered ? "No trigger matches." : "There are no triggers."} A trigger starts runs by a schedule, or when a
      record changes its state.
    </p>
  );
}

function Filters() {
  const [parameters, change] = useAddress();
  const value = (name: string) => parameters.get(name) ?? "";
  const set = (name: string) => (event: { target: { value: string } }) =>
    change({ [name]: event.target.value, offset: undefined });
  return (
    <search className="row">
      <label>
        Type
        <select value={value("type")} onChange={set("type")}>
          <option value="">any</option>
          <option value="cron">cron</option>
          <option value="record_transition">record transition</option>
        </select>
      </label>
      <label>
        Enabled
        <select value={value("enabled")} onChange={set("enabled")}>
          <option value="">any</option>
          <option value="true">enabled</option>
          <option value="false">disabled</option>
        </select>
      </label>
      <label>
        Workflow
        <input type="search" value={value("workflow_id")} onChange={set("workflow_id")} placeholder="its id" />
      </label>
    </search>
  );
}

function Table({ triggers }: { triggers: readonly Trigger[] }) {
  const seesTenants = useSeesTenants(triggers);
  return (
    <Scroll label="Triggers">
      <table>
        <thead>
          <tr>
            <th scope="col">Fires at</th>
            <th scope="col">Workflow</th>
            {seesTenants && <th scope="col">Tenant</th>}
            <th scope="col">Enabled</th>
            <th scope="col">Next scheduled fire</th>
            <th scope="col">Last scheduled fire</th>
          </tr>
        </thead>
        <tbody>
          {triggers.map((trigger) => (
            <Row key={trigger.id} {...{ trigger, seesTenants }} />
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

export const Enabled = ({ is }: { is: boolean }) => (
  <span className={`state ${is ? "succeeded" : ""}`}>{is ? "enabled" : "disabled"}</span>
);

function Row({ trigger, seesTenants }: { trigger: Trigger; seesTenants: boolean }) {
  const { id, workflow_id, version, enabled, next_fire_at, last_fired_at, in_words, paused } = trigger;
  return (
    <tr>
      <td>
        <Link href={`/triggers/${id}`}>{occasion(trigger)}</Link>
        {in_words !== undefined && <div className="quiet">{in_words}</div>}
      </td>
      <td>
        <WorkflowLink id={workflow_id} /> {version !== undefined && `version ${version}`}
      </td>
      {seesTenants && (
        <td>
          <Tenant id={trigger.tenant_id} />
        </td>
      )}
      <td>
        <Enabled is={enabled} />
        {paused?.reason !== undefined && <div className="quiet">{paused.reason}</div>}
      </td>
      <td>
        <When at={next_fire_at} />
      </td>
      <td>
        <When at={last_fired_at} />
      </td>
    </tr>
  );
}
