// The session of this browser: whether there is one, whose it is, and that it has ended. The service keeps it, in a cookie that no script can read; an
// API key is here only while it is exchanged. The pages are no matter of this file.
import { useSyncExternalStore } from "react";
import { backoff } from "../../sdk/backoff.js";
import { ApiError, ask, isPassing, type Sessions, watchSessions } from "./client.js";
import type { Principal } from "./resources.js";

export type Standing =
  | { readonly is: "asked" }
  | { readonly is: "absent" }
  | { readonly is: "refused"; readonly error: Error }
  /** `ended`: the principal is the last one. */
  | { readonly is: "open" | "ended"; readonly principal: Principal };

const ADDRESS = "/auth/session";
const ASKED_AGAIN_MS = { base: 250, cap: 5_000 };

class Session implements Sessions {
  private standing: Standing = { is: "asked" };
  private readonly listeners = new Set<() => void>();
  /** The other pages of this browser have the same cookie. */
  private readonly others = new BroadcastChannel("saga.session");
  private asking: Promise<void> | undefined;
  /** Rises when this page logs in or out: an answer from before counts no more. */
  private turn = 0;
  /** What is read waits for it, after the session has ended. */
  private return: Return | undefined;

  readonly read = (): Standing => this.standing;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** From now on, requests that are refused are noticed. */
  start(): void {
    watchSessions(this);
    this.others.onmessage = () => void this.ask();
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") void this.ask();
    });
    void this.ask();
  }

  /** Rejects with ApiError. */
  async logIn(key: string): Promise<void> {
    const principal = await ask<Principal>("POST", ADDRESS, { body: { api_key: key } });
    this.turn++;
    this.found(principal);
    this.others.postMessage("");
  }

  /** A session that is gone already is no fault. */
  async logOut(): Promise<void> {
    await ask("POST", "/auth/logout", { body: {} }).catch((error: unknown) => {
      if (!isStatus(error, 401)) throw error;
    });
    this.turn++;
    this.become({ is: "absent" });
    this.others.postMessage("");
  }

  get awaited(): Promise<void> | undefined {
    return this.return?.promise;
  }

  /** A request was refused: the session has ended, or it was of the one before. */
  suspect(): Promise<void> {
    this.return ??= newReturn();
    if (this.standing.is === "open") void this.ask();
    return this.return.promise;
  }

  private ask(): Promise<void> {
    this.asking ??= this.askNow().finally(() => {
      this.asking = undefined;
    });
    return this.asking;
  }

  /** A node that goes away, or that hears nobody from this address for a while, is asked again. */
  private async askNow(): Promise<void> {
    const { turn } = this;
    for (let failures = 0; turn === this.turn; failures++) {
      const answer = await ask<Principal>("GET", ADDRESS).catch((error: Error) => error);
      if (turn !== this.turn) return;
      if (!(answer instanceof Error)) return this.found(answer);
      if (isStatus(answer, 401)) return this.lost();
      if (!isPassing(answer)) return this.refused(answer);
      await new Promise((resolve) => setTimeout(resolve, backoff(failures, ASKED_AGAIN_MS)));
    }
  }

  private found(principal: Principal): void {
    const before = this.standing;
    this.become({ is: "open", principal });
    // The pages of another principal are gone, and with them what they waited for.
    if ("principal" in before && isSame(before.principal, principal)) this.return?.resolve();
    this.return = undefined;
    if (before.is === "asked") this.others.postMessage("");
  }

  private lost(): void {
    const { standing } = this;
    this.become("principal" in standing ? { is: "ended", principal: standing.principal } : { is: "absent" });
  }

  /** While a page is shown, its own requests say so. */
  private refused(error: Error): void {
    if (!("principal" in this.standing)) this.become({ is: "refused", error });
  }

  private become(standing: Standing): void {
    this.standing = standing;
    for (const listener of this.listeners) listener();
  }
}

interface Return {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
}

function newReturn(): Return {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

const isStatus = (error: unknown, status: number) => error instanceof ApiError && error.status === status;

/** What makes someone another: whom the service sees, and what they may do. */
export const identityOf = ({ expires_at: _, ...rest }: Principal): string => JSON.stringify(rest);
const isSame = (one: Principal, other: Principal) => identityOf(one) === identityOf(other);

export const session = new Session();

export const useSession = (): Standing => useSyncExternalStore(session.subscribe, session.read);
