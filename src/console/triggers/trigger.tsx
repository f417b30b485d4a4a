// A trigger: what it starts, its next fires and those that were, and the acts on it. Its runs are on pages of their own.
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "wouter";
import { get, part } from "../browser/client.js";
import type { Fire, List, Trigger } from "../browser/resources.js";
import { useTitle } from "../browser/title.js";
import { Answer } from "../parts/notes.js";
import { Pager, useOffset } from "../parts/pager.js";
import { Json, When } from "../parts/values.js";
import { Acts } from "./acts.js";
import { occasion } from "./config.js";
import { Enabled } from "./index.js";
import { Paused } from "./pause.js";
import { WorkflowLink } from "./workflow-link.js";
import "./triggers.css";
import { Scroll } from "../parts/scroll.js";

/** A fire's run is started after the fire, so it comes a moment later. */
const EVERY_MS = 2_000;

export default function Page() {
  const { id = "" } = useParams();
  const trigger = useQuery({
    queryKey: ["triggers", id],
    queryFn: ({ signal }) => get<Trigger>(`/triggers/${part(id)}`, { signal }),
    refetchInterval: EVERY_MS,
  });
  useTitle(trigger.data && occasion(trigger.data), trigger.data?.workflow_id, "Trigger");
  return (
    <Answer of={trigger} all="triggers">
      {(trigger) => <Shown trigger={trigger} />}
    </Answer>
  );
}

function Shown({ trigger }: { trigger: Trigger }) {
  return (
    <>
      <h1>{occasion(trigger)}</h1>
      <p>
        <Enabled is={trigger.enabled} /> A {trigger.trigger_type === "cron" ? "cron" : "record transition"} trigger that
        starts <WorkflowLink id={trigger.workflow_id} />,{" "}
        {trigger.version === undefined ? "the latest published version" : `version ${trigger.version}`}.{" "}
        <Link href={`/runs?trigger_id=${trigger.id}`}>Its runs</Link>
      </p>
      {trigger.in_words !== undefined && <p>{trigger.in_words}.</p>}
      <Paused trigger={trigger} />
      <Acts trigger={trigger} />
      <div className="trigger-page">
        <div>
          {trigger.trigger_type === "cron" && <Next trigger={trigger} />}
          <h2>Config</h2>
          <Json value={trigger.config} label="Config" />
        </div>
        <Fires id={trigger.id} />
      </div>
    </>
  );
}

function Next({ trigger: { id, enabled, next_fire_at } }: { trigger: Trigger }) {
  const next = useQuery({
    queryKey: ["triggers", id, "next", next_fire_at],
    queryFn: ({ signal }) => get<{ items: readonly string[] }>(`/triggers/${part(id)}/next`, { signal }),
  });
  return (
    <section aria-labelledby="next">
      <h2 id="next">Next fires</h2>
      {!enabled && <p className="quiet">It is disabled: it fires at none of these.</p>}
      <Answer of={next}>
        {({ items }) => (
          <ol className="ticks">
            {items.map((at) => (
              <li key={at}>
                <When at={at} />
              </li>
            ))}
          </ol>
        )}
      </Answer>
    </section>
  );
}

function Fires({ id }: { id: string }) {
  const offset = useOffset();
  const fires = useQuery({
    queryKey: ["triggers", id, "fires", offset],
    queryFn: ({ signal }) => get<List<Fire>>(`/triggers/${part(id)}/fires`, { query: { offset }, signal }),
    refetchInterval: EVERY_MS,
  });
  return (
    <section aria-labelledby="fires">
      <h2 id="fires">Past fires</h2>
      <Answer of={fires}>
        {(page) => (
          <>
            {page.total === 0 ? <p className="quiet">It has not fired yet.</p> : <FireTable fires={page.items} />}
            <Pager of={page} label="fires" />
          </>
        )}
      </Answer>
    </section>
  );
}

function FireTable({ fires }: { fires: readonly Fire[] }) {
  return (
    <Scroll label="Fires">
      <table>
        <thead>
          <tr>
            <th scope="col">Scheduled</th>
            <th scope="col">Fired</th>
            <th scope="col">What came of it</th>
          </tr>
        </thead>
        <tbody>
          {fires.map((fire) => (
            <tr key={fire.id}>
              <td>
                <When at={fire.scheduled_at} /> {fire.backfilled && <span className="quiet">backfilled</span>}
              </td>
              <td>
                <When at={fire.fired_at} />
              </td>
              <td>
                <Outcome fire={fire} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Outcome({ fire: { resulting_run_id: run, error } }: { fire: Fire }) {
  if (run !== undefined) return <Link href={`/runs/${run}`}>run {run}</Link>;
  if (error !== undefined) return <span className="fault">{error}</span>;
  return <span className="quiet">its run is still owed</span>;
}
