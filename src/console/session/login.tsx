// The login: a page of its own, or laid over the pages when their session has ended. An API key is sent once and kept nowhere: not in React's state, the
// address or a storage.
import { type FormEvent, useEffect, useRef, useState } from "react";
import { ApiError } from "../browser/client.js";
import type { Principal } from "../browser/resources.js";
import type { Way } from "../browser/service.js";
import { session } from "../browser/session.js";
import { useTitle } from "../browser/title.js";
import { Refused } from "../parts/notes.js";
import "./session.css";

type Ways = ReadonlySet<Way>;

export function LoginPage({ ways }: { ways: Ways }) {
  useTitle("Log in");
  return (
    <main className="login">
      <p className="login-brand">Sagas</p>
      <section className="card" aria-labelledby="login-title">
        <h1 id="login-title">Log in</h1>
        <Login ways={ways} />
      </section>
    </main>
  );
}

/** A dialog below it keeps what was typed. It cannot be closed: without a session the pages can show nothing. */
export function SessionEnded({ ways, principal }: { ways: Ways; principal: Principal }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const show = () => {
    dialog.current?.showModal();
    dialog.current?.querySelector("input")?.focus();
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: once
  useEffect(() => show(), []);
  return (
    <dialog
      ref={dialog}
      className="login-over"
      aria-labelledby="ended-title"
      onCancel={(event) => event.preventDefault()}
      onClose={show}
    >
      <h2 id="ended-title">Your session has ended</h2>
      <p>
        You were logged out: here, elsewhere, or because you did nothing for a while. Log in again as{" "}
        <strong className="subject">{principal.sub}</strong> and go on where you were; what you have typed is still
        there.
      </p>
      <Login ways={ways} isOver />
    </dialog>
  );
}

function Login({ ways, isOver = false }: { ways: Ways; isOver?: boolean }) {
  if (ways.size === 0)
    return (
      <p>
        This service takes tokens only, so nobody can log in with a browser. Whoever runs it can add{" "}
        <code>api_key</code> to <code>SAGA_AUTH</code>, or set <code>SAGA_OIDC_CLIENT_ID</code>.
      </p>
    );
  return (
    <>
      {ways.has("oidc") && (
        <a
          className="button sign-on"
          href={`/auth/login?next=${encodeURIComponent(thisPage())}`}
          {...(isOver && ELSEWHERE)}
        >
          Single sign-on{isOver && <span className="quiet"> (in a new tab)</span>}
        </a>
      )}
      {ways.size > 1 && <p className="login-or quiet">or</p>}
      {ways.has("key") && <KeyForm />}
    </>
  );
}

/** This page stays as it is, and notices the new session. */
const ELSEWHERE = { target: "_blank", rel: "noopener" } as const;
/** As much as the service takes. */
const MOST_NEXT = 1_024;

function thisPage(): string {
  const { pathname, search, hash } = location;
  const whole = `${pathname}${search}${hash}`;
  return whole.length > MOST_NEXT ? pathname : whole;
}

const WRONG = "The service does not take this key: it is mistyped, expired or revoked.";

function KeyForm() {
  const input = useRef<HTMLInputElement>(null);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<Error>();
  useEffect(() => input.current?.focus(), []);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const field = input.current;
    if (!field) return;
    setBusy(true);
    setError(undefined);
    const failure = await session.logIn(field.value.trim()).catch((error: Error) => error);
    field.value = "";
    setBusy(false);
    if (!failure) return;
    setError(failure instanceof ApiError && failure.status === 401 ? new Error(WRONG) : failure);
    field.focus();
  };
  return (
    <form className="key-form" onSubmit={submit}>
      <label>
        API key
        <input
          ref={input}
          type="password"
          required
          maxLength={256}
          autoComplete="current-password"
          autoCapitalize="off"
          spellCheck={false}
          placeholder="saga_…"
          readOnly={isBusy}
        />
      </label>
      {error && <Refused error={error} />}
      <button type="submit" className="primary" disabled={isBusy}>
        {isBusy ? "Logging in …" : "Log in"}
      </button>
    </form>
  );
}
