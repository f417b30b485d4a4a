// The page of a run: why it stands where it stands, what a person may do about it, and its story in tabs. Tab, step and moment are in the
// address.
import "./run.css";
import { useMemo } from "react";
import { useParams } from "wouter";
import { useAddress } from "../browser/address.js";
import { MAX_EVENTS } from "../browser/live.js";
import type { Run } from "../browser/resources.js";
import { useTitle } from "../browser/title.js";
import { Answer, Refused } from "../parts/notes.js";
import { stateName, stateText } from "../parts/state-words.js";
import { ChildrenTab } from "./children-tab.js";
import { useDefinition, useNamed, useRun, useStory } from "./data.js";
import { EventsTab } from "./events-tab.js";
import { GraphTab } from "./graph-tab.js";
import { Header } from "./header.js";
import { Slider, useShown } from "./moment.js";
import { SignalsTab } from "./signals-tab.js";
import { TasksTab } from "./tasks-tab.js";
import { TimelineTab } from "./timeline-tab.js";
import { UndoTab } from "./undo-tab.js";
import { VariablesTab } from "./variables-tab.js";

const TABS = {
  graph: { name: "Graph", tab: GraphTab },
  timeline: { name: "Timeline", tab: TimelineTab },
  events: { name: "Events", tab: EventsTab },
  variables: { name: "Variables", tab: VariablesTab },
  signals: { name: "Signals", tab: SignalsTab },
  tasks: { name: "Tasks", tab: TasksTab },
  undo: { name: "Undo", tab: UndoTab },
  children: { name: "Children", tab: ChildrenTab },
} as const;

type TabName = keyof typeof TABS;
const NAMES = Object.keys(TABS) as readonly TabName[];

export default function Page() {
  const { id = "" } = useParams();
  const run = useRun(id);
  return (
    <Answer<Run> of={run} all="runs">
      {(data) => <RunPage key={id} run={data} />}
    </Answer>
  );
}

function RunPage({ run }: { run: Run }) {
  const definition = useDefinition(run);
  const named = useNamed(definition.data, run);
  const read = useStory(run.id, definition.data?.machine);
  const shown = useShown(read);
  const tab = useTab();
  const { tab: Tab } = TABS[tab];
  useTitle(
    run.business_key ?? run.id.slice(-8),
    stateText(stateName(run.state, run.paused_reason)),
    definition.data?.workflow.name ?? run.workflow_id,
  );
  return (
    <>
      <Header run={run} definition={named} isPast={shown.at !== undefined} />
      {read.live.error && <Refused error={read.live.error} />}
      {definition.error && definition.data === undefined && <Refused error={definition.error} />}
      {read.live.isCut && <Cut />}
      <Slider read={read} shown={shown} names={named?.names} />
      <Tabs tab={tab} />
      <section aria-label={TABS[tab].name} className="tab">
        <Tab run={run} read={read} shown={shown} definition={named} />
      </section>
    </>
  );
}

const Cut = () => (
  <p className="note">
    The run has more events than this page keeps. It shows the first {MAX_EVENTS.toLocaleString()}; the API has all of
    them.
  </p>
);

function useTab(): TabName {
  const [parameters] = useAddress();
  const name = parameters.get("tab") ?? "graph";
  return useMemo(() => NAMES.find((one) => one === name) ?? "graph", [name]);
}

function Tabs({ tab }: { tab: TabName }) {
  const [, change] = useAddress();
  return (
    <nav className="tabs" aria-label="Views of the run">
      {NAMES.map((name) => (
        <button
          key={name}
          type="button"
          aria-current={name === tab ? "true" : undefined}
          onClick={() => change({ tab: name === "graph" ? undefined : name }, "keep")}
        >
          {TABS[name].name}
        </button>
      ))}
    </nav>
  );
}
