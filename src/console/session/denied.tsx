// What is there instead of a page that is for other roles, and instead of all pages.
import { sufficientRole } from "../../access/roles.js";
import { type OperationId, usePrincipal } from "../browser/access.js";
import { useTitle } from "../browser/title.js";
import { NEEDS } from "./needs.js";
import { LogOut } from "./who.js";
import "./session.css";

/** The operation without which the page would be of no use. */
export function Denied({ to }: { to: OperationId }) {
  useTitle("Not for your roles");
  return (
    <>
      <h1>This page is not for your roles</h1>
      <p>The role {sufficientRole(NEEDS[to])} may use it.</p>
    </>
  );
}

/** Of a worker, or of what reads the metrics. */
export function NoConsole() {
  useTitle("No console");
  const roles = usePrincipal()?.roles.join(", ") || "none";
  return (
    <main className="login">
      <p className="login-brand">Sagas</p>
      <section className="card" aria-labelledby="no-console">
        <h1 id="no-console">There is no console for this credential</h1>
        <p>Its roles are: {roles}. No page is for them. Log out, and log in with another credential.</p>
        <LogOut />
      </section>
    </main>
  );
}
