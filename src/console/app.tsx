// The frame around every page: the way to the others, and which page an address leads to. Pages are loaded when they are opened.
import { type ComponentType, lazy, Suspense, useEffect, useRef } from "react";
import { Link, Redirect, Route, Switch, useLocation } from "wouter";
import { useTitle } from "./browser/title.js";
import { zoneName } from "./parts/clock.js";
import { Boundary, Loading } from "./parts/notes.js";

interface Page {
  readonly path: string;
  /** The name of the entry in the menu. Absent: the page is reached from another. */
  readonly name?: string;
  readonly page: ComponentType;
}

const PAGES: readonly Page[] = [
  { path: "/runs", name: "Runs", page: lazy(() => import("./runs/index.js")) },
  { path: "/runs/:id", page: lazy(() => import("./run/index.js")) },
  { path: "/workflows", name: "Workflows", page: lazy(() => import("./workflows/index.js")) },
  { path: "/workflows/:id", page: lazy(() => import("./workflows/workflow.js")) },
  { path: "/tasks", name: "Tasks", page: lazy(() => import("./tasks/index.js")) },
  { path: "/rules", name: "Rules", page: lazy(() => import("./rules/index.js")) },
  { path: "/rules/:id", page: lazy(() => import("./rules/rule.js")) },
  { path: "/triggers", name: "Triggers", page: lazy(() => import("./triggers/index.js")) },
  { path: "/triggers/:id", page: lazy(() => import("./triggers/trigger.js")) },
  { path: "/bulk", name: "Bulk", page: lazy(() => import("./bulk/index.js")) },
  { path: "/bulk/:id", page: lazy(() => import("./bulk/job.js")) },
  { path: "/workers", name: "Workers", page: lazy(() => import("./workers/index.js")) },
  { path: "/cluster", name: "Cluster", page: lazy(() => import("./cluster/index.js")) },
];

export function App() {
  const [location] = useLocation();
  return (
    <>
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <header className="top">
        <Link href="/runs" className="brand">
          Sagas
        </Link>
        <nav aria-label="Pages">
          {PAGES.map(({ path, name }) => name && <Entry key={path} path={path} name={name} location={location} />)}
        </nav>
        <span className="zone quiet">times in {zoneName(new Date())}</span>
        <a href="/docs">API</a>
      </header>
      <Content location={location} />
    </>
  );
}

function Nowhere() {
  useTitle("No such page");
  return <h1>There is no such page</h1>;
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
function Content({ location }: { location: string }) {
  const content = useRef<HTMLElement>(null);
  const first = useRef(location);
  useEffect(() => {
    if (first.current !== location) content.current?.focus();
    first.current = location;
  }, [location]);
  return (
    <main id="content" tabIndex={-1} ref={content}>
      <Boundary key={location}>
        <Suspense fallback={<Loading />}>
          <Switch>
            {PAGES.map(({ path, page }) => (
              <Route key={path} path={path} component={page} />
            ))}
            <Route path="/">
              <Redirect to="/runs" replace />
            </Route>
            <Route>
              <Nowhere />
            </Route>
          </Switch>
        </Suspense>
      </Boundary>
    </main>
  );
}
