// The gate around the pages: with access on, they are mounted for whoever has a session. When it ends they stay as they are, behind the login; for
// another principal they are mounted anew, and everything is read again.
import { QueryClientProvider } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { PrincipalContext } from "../browser/access.js";
import { newQueries } from "../browser/queries.js";
import type { Way } from "../browser/service.js";
import { identityOf, useSession } from "../browser/session.js";
import { Loading, Refused } from "../parts/notes.js";
import { LoginPage, SessionEnded } from "./login.js";

type Ways = ReadonlySet<Way>;

/** Without ways, access is off. */
export const Gate = ({ ways, children }: { ways: Ways | undefined; children: ReactNode }) =>
  ways ? <Guarded ways={ways}>{children}</Guarded> : <Pages>{children}</Pages>;

function Guarded({ ways, children }: { ways: Ways; children: ReactNode }) {
  const session = useSession();
  if (session.is === "asked") return <Loading />;
  if (session.is === "absent") return <LoginPage ways={ways} />;
  if (session.is === "refused")
    return (
      <main className="login">
        <Refused error={session.error} />
        <button type="button" onClick={() => location.reload()}>
          Try again
        </button>
      </main>
    );
  return (
    <PrincipalContext value={session.principal}>
      <Pages key={identityOf(session.principal)}>{children}</Pages>
      {session.is === "ended" && <SessionEnded ways={ways} principal={session.principal} />}
    </PrincipalContext>
  );
}

function Pages({ children }: { children: ReactNode }) {
  const [queries] = useState(newQueries);
  return <QueryClientProvider client={queries}>{children}</QueryClientProvider>;
}
