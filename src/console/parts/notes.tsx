// What a page says when there is nothing to show: it loads, it was refused, it failed.
import { Component, type ReactNode } from "react";
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
export function Answer<T>({ of, children }: { of: Asked<T>; children: (data: T) => ReactNode }) {
  if (of.data !== undefined) return children(of.data);
  return of.error ? <Refused error={of.error} /> : <Loading />;
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
