// The frame around every page: the way to the others, and which page an address leads to. Pages are loaded when they are opened.
import { type ComponentType, lazy, Suspense, useEffect, useRef } from "react";
import { Link, Redirect, Route, Switch, useLocation } from "wouter";
import { type OperationId, useMay } from "./browser/access.js";
import { useTitle } from "./browser/title.js";
import { zoneName } from "./parts/clock.js";
import { Boundary, Loading } from "./parts/notes.js";
import { Denied, NoConsole } from "./session/denied.js";
import { Who } from "./session/who.js";

interface Page {
  readonly path: string;
  /** The name of the entry in the menu. Absent: the page is reached from another. */
  readonly name?: string;
  /** The page is for those who may do this. */
  readonly needs: OperationId;
  readonly page: ComponentType;
}

const PAGES: readonly Page[] = [
  { path: "/runs", name: "Runs", needs: "listSagas", page: lazy(() => import("./runs/index.js")) },
  { path: "/runs/:id", needs: "getSaga", page: lazy(() => import("./run/index.js")) },
  { path: "/workflows", name: "Workflows", needs: "listWorkflows", page: lazy(() => import("./workflows/index.js")) },
  { path: "/workflows/:id", needs: "getWorkflow", page: lazy(() => import("./workflows/workflow.js")) },
  { path: "/tasks", name: "Tasks", needs: "listUserTasks", page: lazy(() => import("./tasks/index.js")) },
  { path: "/rules", name: "Rules", needs: "listRules", page: lazy(() => import("./rules/index.js")) },
  { path: "/rules/:id", needs: "getRule", page: lazy(() => import("./rules/rule.js")) },
  { path: "/triggers", name: "Triggers", needs: "listTriggers", page: lazy(() => import("./triggers/index.js")) },
  { path: "/triggers/:id", needs: "getTrigger", page: lazy(() => import("./triggers/trigger.js")) },
  { path: "/bulk", name: "Bulk", needs: "listBulkJobs", page: lazy(() => import("./bulk/index.js")) },
  { path: "/bulk/:id", needs: "getBulkJob", page: lazy(() => import("./bulk/job.js")) },
  { path: "/workers", name: "Workers", needs: "listWorkers", page: lazy(() => import("./workers/index.js")) },
  { path: "/cluster", name: "Cluster", needs: "getCluster", page: lazy(() => import("./cluster/index.js")) },
  { path: "/keys", name: "API keys", needs: "listApiKeys", page: lazy(() => import("./keys/index.js")) },
];

export function App() {
  const [location] = useLocation();
  const may = useMay();
  const offered = PAGES.filter(({ needs }) => may(needs));
  const [first] = offered;
  if (!first) return <NoConsole />;
  return (
    <>
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <header className="top">
        <Link href={first.path} className="brand">
          Sagas
        </Link>
        <nav aria-label="Pages">
          {offered.map(({ path, name }) => name && <Entry key={path} path={path} name={name} location={location} />)}
        </nav>
        <span className="zone quiet">times in {zoneName(new Date())}</span>
        <a href="/docs">API</a>
        <Who />
      </header>
      <Content location={location} first={first} />
    </>
  );
}

function Nowhere({ first: { path, name } }: { first: Page }) {
  useTitle("No such page");
  return (
    <>
      <h1>There is no such page</h1>
      <p>
        <Link href={path}>{name}</Link>
      </p>
    </>
  );
}

function Entry({ path, name, location }: { path: string; name: string; location: string }) {
  const isHere = location === path || location.startsWith(`${path}/`);
  return (
    <Link href={path} aria-current={isHere ? "page" : undefined}>
      {name}
    </Link>
  );
}

/** A screen reader is told of a new page: the content takes the focus. */
function Content({ location, first }: { location: string; first: Page }) {
  const content = useRef<HTMLElement>(null);
  const before = useRef(location);
  const may = useMay();
  useEffect(() => {
    if (before.current !== location) content.current?.focus();
    before.current = location;
  }, [location]);
  return (
    <main id="content" tabIndex={-1} ref={content}>
      <Boundary key={location}>
        <Suspense fallback={<Loading />}>
          <Switch>
            {PAGES.map(({ path, needs, page: Page }) => (
              <Route key={path} path={path}>
                {may(needs) ? <Page /> : <Denied to={needs} />}
              </Route>
            ))}
            <Route path="/">
              <Redirect to={first.path} replace />
            </Route>
            <Route>
              <Nowhere first={first} />
            </Route>
          </Switch>
        </Suspense>
      </Boundary>
    </main>
  );
}
