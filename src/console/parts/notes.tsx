// What a page says when there is nothing to show: it loads, it was refused, it failed.
import { Component, type ReactNode } from "react";
import { Link } from "wouter";
import { ApiError } from "../browser/client.js";
import { Sentence } from "./sentence.js";

export const Loading = () => (
  <p className="quiet" role="status">
    Loading …
  </p>
);

export function Refused({ error }: { error: Error }) {
  const details = error instanceof ApiError ? error.details : [];
  return (
    <div className="refused" role="alert">
      <p>
        <Sentence text={error.message} />
      </p>
      {details.length > 0 && (
        <ul>
          {details.map(({ path, message }) => (
            <li key={`${path} ${message}`}>
              <code>{path}</code> {message}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

interface Asked<T> {
  readonly data: T | undefined;
  readonly error: Error | null;
}

/** The answer of a query as children, or a note while there is none. */
/** `all`: the list that leads on, named as its address is, where there is no such thing. */
export function Answer<T>({ of, all, children }: { of: Asked<T>; all?: string; children: (data: T) => ReactNode }) {
  if (of.data !== undefined) return children(of.data);
  if (!of.error) return <Loading />;
  const isUnknown = of.error instanceof ApiError && of.error.status === 404;
  return (
    <>
      <Refused error={of.error} />
      {isUnknown && all && (
        <p>
          <Link href={`/${all}`}>All {all}</Link>
        </p>
      )}
    </>
  );
}

/** After an upgrade of the service, the files of an open page are gone: loading it anew helps. */
const Fault = ({ error }: { error: Error }) => (
  <>
    <Refused error={error} />
    <button type="button" onClick={() => location.reload()}>
      Reload the page
    </button>
  </>
);

/** A fault of one page leaves the way to the others. */
export class Boundary extends Component<{ children: ReactNode }, { error?: Error }> {
  override state: { error?: Error } = {};

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    return error ? <Fault error={error} /> : this.props.children;
  }
}
