// The head of the page of a run: its state, why it stands there, what failed, what may be done, and where it belongs.

import { Link } from "wouter";
import type { Run } from "../browser/resources.js";
import { hasInspector } from "../browser/service.js";
import { STEP_BOOK } from "../browser/step-book.js";
import { counted } from "../parts/plural.js";
import { Sentence } from "../parts/sentence.js";
import { belowWords, stateName } from "../parts/state-words.js";
import { useSeesTenants } from "../parts/tenants.js";
import { Json, State, When } from "../parts/values.js";
import { hasEnded, isAtIncident, total } from "../story/counts.js";
import { type Names, nameIn } from "../story/words.js";
import { Acts } from "./acts.js";
import { type Definition, type Explanation, useCounts, useExplanation } from "./data.js";
import { Erase } from "./erase.js";
import { FailureWords } from "./failure.js";
import { FamilyIncidents, useIncidentsBelow } from "./family-incidents.js";
import { nextWords } from "./next-words.js";
import { quarantineWords } from "./quarantine-words.js";

export function Header(props: { run: Run; definition: Definition | undefined; isPast: boolean }) {
  const { run, definition, isPast } = props;
  const explanation = useExplanation(run);
  const below = useIncidentsBelow(run);
  return (
    <header className="run-head">
      <div className="run-title">
        <h1>{definition?.workflow.name ?? run.workflow_id}</h1>
        <State state={run.state} reason={run.paused_reason} />
        <Working run={run} />
        {below.total > 0 && <span className="state failed">{belowWords(below.total)}</span>}
        {run.dry_run && <span className="state">dry run</span>}
        {run.requires_manual_review && <span className="state failed">needs a manual review</span>}
      </div>
      {explanation.data && <Headline {...{ run, definition, isPast }} explanation={explanation.data} />}
      <Failure run={run} names={definition?.names} />
      <FamilyIncidents run={run} names={definition?.names} {...below} />
      {explanation.data && (
        <Acts run={run} can={explanation.data.can}>
          <Erase run={run} />
        </Acts>
      )}
      <Facts run={run} names={definition?.names} name={definition?.workflow.name} />
    </header>
  );
}

const WORKING = ["running", "compensating"];

/** The run waits for its children. Which of them work is a fact of its own. */
function Working({ run }: { run: Run }) {
  const counts = useCounts(run).data?.items ?? [];
  if (run.paused_reason !== "children") return null;
  return WORKING.map((state) => {
    const count = total(counts.filter((one) => one.state === state && !isAtIncident(one)));
    if (count === 0) return null;
    return (
      <span key={state} className={`state ${state} tone-${stateName(state).tone}`}>
        {counted(count, "child", "children")} {stateName(state).word}
      </span>
    );
  });
}

interface HeadlineProps {
  readonly run: Run;
  readonly definition: Definition | undefined;
  readonly explanation: Explanation;
  readonly isPast: boolean;
}

function Headline({ run, definition, explanation, isPast }: HeadlineProps) {
  const next = hasEnded(run) ? undefined : nextWords(explanation, definition, STEP_BOOK);
  return (
    <p className="because" role="status">
      {isPast && <span className="quiet">Now: </span>}The run{" "}
      <Sentence text={explanation.because} names={definition?.names} />.
      {next && (
        <span className="quiet">
          {" "}
          {next.before} <When at={explanation.next_at} />
          {next.after}.
        </span>
      )}
    </p>
  );
}

/** What failed for good, what the run failed with, or what it was quarantined on. The details are below the sentence. */
function Failure({ run: { incident, error, quarantine, current_step: step }, names }: { run: Run; names: Names }) {
  const failure = incident ?? error;
  if (!failure && !quarantine) return null;
  return (
    <div className="refused">
      {failure && (
        <p>
          <FailureWords failure={failure} attempts={incident?.attempts} names={names} />
        </p>
      )}
      {quarantine && <p>{quarantineWords(quarantine, step === undefined ? undefined : nameIn(names, step))}</p>}
      {error?.cause !== undefined && <Details of={error.cause} label="The cause" />}
      {quarantine && <Details of={quarantine} label="The last trial" />}
    </div>
  );
}

const Details = ({ of, label }: { of: unknown; label: string }) => (
  <details>
    <summary>{label}</summary>
    <Json value={of} label={label} />
  </details>
);

function Facts({ run, names, name }: { run: Run; names: Names; name: string | undefined }) {
  return (
    <details className="facts" open={window.innerWidth > 900}>
      <summary>
        <code>{run.id}</code>
      </summary>
      <div className="fact-grid">
        <Times run={run} name={name} />
        <Belongs run={run} names={names} />
        <Labels run={run} />
      </div>
    </details>
  );
}

function Times({ run, name }: { run: Run; name: string | undefined }) {
  return (
    <dl>
      <dt>workflow</dt>
      <dd>
        <Link href={`/workflows/${encodeURIComponent(run.workflow_id)}?version=${run.version}`} title={run.workflow_id}>
          {name ?? run.workflow_id}
        </Link>{" "}
        <span className="quiet">version {run.version}</span>
      </dd>
      <dt>started</dt>
      <dd>
        <When at={run.started_at} />
      </dd>
      <dt>{run.terminal_at ? "ended" : "last event"}</dt>
      <dd>
        <When at={run.terminal_at ?? run.last_event_at} />
      </dd>
    </dl>
  );
}

function Belongs({ run, names }: { run: Run; names: Names }) {
  const { parent_run_id, parent_step_id, parent_branch_id, root_run_id, rerun_of, forked_from } = run;
  // A sub-saga has steps of its own: those of its parent have no names here.
  const step = parent_branch_id === undefined ? parent_step_id : nameIn(names, parent_step_id ?? "");
  const branch = parent_branch_id === undefined ? "" : `[${parent_branch_id}]`;
  return (
    <dl>
      {parent_run_id && <RunLink id={parent_run_id} as="parent" more={` at ${step}${branch}`} />}
      {root_run_id && root_run_id !== parent_run_id && root_run_id !== run.id && <RunLink id={root_run_id} as="root" />}
      {rerun_of && <RunLink id={rerun_of} as="rerun of" />}
      {forked_from && (
        <RunLink id={forked_from.saga_id} as="forked from" more={` at ${nameIn(names, forked_from.step)}`} />
      )}
      {run.current_step !== undefined && (
        <>
          <dt>at step</dt>
          <dd title={run.current_step}>{nameIn(names, run.current_step)}</dd>
        </>
      )}
      <dt>elsewhere</dt>
      <dd>
        {hasInspector() && (
          <>
            <a href={`/inspect/${run.id}`}>Stately inspector</a> ·{" "}
          </>
        )}
        {run.terminal_at && !parent_run_id && (
          <>
            <Link href={`/runs?forked_from=${run.id}`}>Forks of this run</Link> ·{" "}
          </>
        )}
        <a href={`/api/v1/sagas/${run.id}`}>JSON</a>
      </dd>
    </dl>
  );
}

const RunLink = ({ id, as, more = "" }: { id: string; as: string; more?: string }) => (
  <>
    <dt>{as}</dt>
    <dd>
      <Link href={`/runs/${id}`}>{id}</Link>
      {more}
    </dd>
  </>
);

function Labels({ run }: { run: Run }) {
  const { business_key, labels = {}, tenant_id, priority, fairness_key } = run;
  const tenant = useSeesTenants([run]) ? tenant_id : undefined;
  const turn = [
    ["priority", priority],
    ["fairness key", fairness_key],
  ] as const;
  const facts = [["business key", business_key], ["tenant", tenant], ...turn, ...Object.entries(labels)] as const;
  return (
    <dl>
      {facts.map(
        ([name, value]) =>
          value !== undefined && (
            <div key={name} className="fact">
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
